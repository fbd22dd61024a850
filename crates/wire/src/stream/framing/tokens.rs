//! Passes over raw SASL tokens. Does not look into them.
//!
//! After `SaslHandshake` version 0 both sides send authentication tokens that have a size field and no header
//! (KIP-43; `SaslServerAuthenticator.handleSaslToken`), until the broker is content; how many depends on the
//! mechanism, and only the client's next request tells that it was. So from the end of such a handshake on,
//! what stands where a frame must start is a token unless it is, for the client, a header of an API and
//! version that are known with a client id that is text, and for the broker, an answer to a request that
//! waits. No mechanism's tokens begin so: PLAIN's with a zero and the user's name, SCRAM's and OAUTHBEARER's with text
//! (`n,,`), GSSAPI's with 0x60 or, wrapped, 0x05. Tokens may be empty. From version 1 on tokens ride in
//! `SaslAuthenticate` (KIP-152) and need none of this.

use super::{Chunk, Framing, State, size_field};

/// What a broker takes (`sasl.server.max.receive.size`, 512 KiB by default); larger ones are no token.
const MAX_TOKEN_BYTES: u32 = 524_288;

impl<T: Copy> Framing<T> {
    /// Whether what stands at a frame's start, and is none, is a token; it is passed over then.
    pub(super) fn is_token(&mut self, chunk: &Chunk<'_, T>) -> bool {
        let seen = if self.carry.is_empty() { chunk.rest() } else { self.carry.as_slice() };
        let size = size_field(seen).filter(|&size| self.expects_tokens && size <= MAX_TOKEN_BYTES);
        let Some(size) = size else { return false };
        self.counts.sasl_tokens += 1;
        self.left = (u64::from(size) + 4).saturating_sub(self.carry.len() as u64);
        self.drop_carry();
        self.state = State::Pass;
        true
    }
}

//! Authenticates a client to a broker: `SaslHandshake`, then the tokens of a mechanism.
//! Does not connect. Fuzzed by: settings.

use wire::sasl::{AuthenticateResponse, HandshakeResponse, authenticate_request, handshake_request};

use super::client_properties::{Credentials, Mechanism};
use super::scram::{Client, Hash, NoProof, SHA_256, SHA_512};
use super::{CLIENT_ID, Error, body, shorten};

/// Kafka's `UNSUPPORTED_SASL_MECHANISM`.
const UNSUPPORTED_MECHANISM: i16 = 33;
const HANDSHAKE_ID: i32 = 2;
const TOKEN_ID: i32 = 3;

/// Sends a frame and returns the response.
type Exchange<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, Error> + 'a;

/// One authentication of a client.
pub(super) struct Session<'a> {
    pub(super) listener: &'a str,
    pub(super) credentials: &'a Credentials,
    /// A string that no other client has used before.
    pub(super) nonce: &'a str,
    pub(super) exchange: &'a mut Exchange<'a>,
}

impl Session<'_> {
    /// Authenticates the client.
    ///
    /// # Errors
    /// The broker does not support the mechanism, refuses the user name or password, or does not prove that it knows the
    /// password.
    pub(super) fn authenticate(&mut self) -> Result<(), Error> {
        self.handshake()?;
        match self.credentials.mechanism {
            Mechanism::Plain => self.plain(),
            Mechanism::ScramSha256 => self.scram(&SHA_256),
            Mechanism::ScramSha512 => self.scram(&SHA_512),
        }
    }

    fn handshake(&mut self) -> Result<(), Error> {
        let mechanism = self.credentials.mechanism.name();
        let answer = (self.exchange)(&handshake_request(HANDSHAKE_ID, CLIENT_ID, mechanism))?;
        let response = HandshakeResponse::parse(body(self.listener, &answer, HANDSHAKE_ID)?)
            .map_err(|error| self.invalid(error.to_string()))?;
        match response.error_code {
            0 => Ok(()),
            UNSUPPORTED_MECHANISM => Err(Error::Mechanism {
                listener: self.listener.to_owned(),
                mechanism,
                others: shorten(&response.mechanisms().collect::<Vec<_>>().join(", ")),
            }),
            code => Err(self.invalid(format!("SaslHandshake: error {code}"))),
        }
    }

    /// RFC 4616: an empty authorization identity, the user name and the password.
    fn plain(&mut self) -> Result<(), Error> {
        let Credentials { username, password, .. } = self.credentials;
        self.token(format!("\0{username}\0{password}").as_bytes()).map(drop)
    }

    fn scram(&mut self, hash: &'static Hash) -> Result<(), Error> {
        let Credentials { username, password, .. } = self.credentials;
        let client = Client::new(hash, username, password, self.nonce);
        let challenge = self.token(client.first_message().as_bytes())?;
        let (message, proof) = client.prove(&challenge).map_err(|why| self.invalid(why))?;
        let last = self.token(message.as_bytes())?;
        proof.check(&last).map_err(|error| match error {
            NoProof::Refusal(why) => self.refusal(&why),
            NoProof::Invalid(why) => self.invalid(why.to_owned()),
        })
    }

    /// Sends a token and returns the broker's.
    fn token(&mut self, token: &[u8]) -> Result<Vec<u8>, Error> {
        let answer = (self.exchange)(&authenticate_request(TOKEN_ID, CLIENT_ID, token))?;
        let response = AuthenticateResponse::parse(body(self.listener, &answer, TOKEN_ID)?)
            .map_err(|error| self.invalid(error.to_string()))?;
        match response.error_code {
            0 => Ok(response.token.to_owned()),
            code => Err(self.refusal(response.error_message.unwrap_or(&format!("error {code}")))),
        }
    }

    fn invalid(&self, why: String) -> Error {
        Error::Answer { listener: self.listener.to_owned(), why }
    }

    fn refusal(&self, message: &str) -> Error {
        let mechanism = self.credentials.mechanism.name();
        Error::Credentials { listener: self.listener.to_owned(), mechanism, message: shorten(message) }
    }
}

/// Entry point of a fuzz target.
#[doc(hidden)]
pub mod fuzzing {
    use super::{Credentials, Error, HANDSHAKE_ID, Mechanism, Session, TOKEN_ID};

    /// The client's password.
    pub const PASSWORD: &str = "a password";
    /// The client's nonce.
    pub const NONCE: &str = "own";

    /// Authenticates by SCRAM or PLAIN to a broker that sends these responses.
    /// They are given without headers.
    ///
    /// # Errors
    /// The reason why authentication fails.
    pub fn authenticate(is_scram: bool, answers: &[&[u8]]) -> Result<(), Error> {
        let mechanism = if is_scram { Mechanism::ScramSha256 } else { Mechanism::Plain };
        let (username, password) = ("user".to_owned(), PASSWORD.to_owned());
        let credentials = Credentials { mechanism, username, password };
        let mut answers = answers.iter();
        let mut id = HANDSHAKE_ID;
        let exchange = &mut |_: &[u8]| {
            let answer = answers.next().copied().unwrap_or_default();
            Ok([&std::mem::replace(&mut id, TOKEN_ID).to_be_bytes(), answer].concat())
        };
        let listener = "SASL_SSL://:9092";
        Session { listener, credentials: &credentials, nonce: NONCE, exchange }.authenticate()
    }
}

#[cfg(test)]
mod tests {
    use super::fuzzing::authenticate;
    use super::{Credentials, Error, Mechanism, Session};

    const TAKEN: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 5, b'P', b'L', b'A', b'I', b'N'];

    /// A response to a token: error code, message and token.
    fn answer(code: u8, message: &str, token: &str) -> Vec<u8> {
        let message = [&[0, message.len() as u8][..], message.as_bytes()].concat();
        [&[0, code][..], &message, &[0, 0, 0, token.len() as u8], token.as_bytes()].concat()
    }

    #[test]
    fn sends_the_password_once_the_broker_accepts_the_mechanism() {
        let credentials = Credentials {
            mechanism: Mechanism::Plain,
            username: "u".to_owned(),
            password: "secret".to_owned(),
        };
        assert!(!format!("{credentials:?}").contains("secret"));
        let mut sent = Vec::new();
        let mut answers =
            [[&[0, 0, 0, 2], TAKEN].concat(), [&[0, 0, 0, 3], &answer(0, "", "")[..]].concat()].into_iter();
        let exchange = &mut |frame: &[u8]| {
            sent.push(frame.to_vec());
            Ok(answers.next().unwrap())
        };
        Session { listener: "x", credentials: &credentials, nonce: "", exchange }.authenticate().unwrap();
        assert!(sent[0].ends_with(b"\0\x05PLAIN") && sent[1].ends_with(b"\0\0\0\x09\0u\0secret"), "{sent:?}");
    }

    #[test]
    fn refusals_are_one_line_errors_without_control_characters() {
        let other =
            authenticate(true, &[&[0, 33, 0, 0, 0, 1, 0, 5, b'P', b'L', b'A', b'I', b'N']]).unwrap_err();
        let text = "SASL_SSL://:9092 has no SASL mechanism SCRAM-SHA-256, but PLAIN";
        assert_eq!(other.to_string(), text);
        let refused = authenticate(false, &[TAKEN, &answer(58, "no\n\u{1b}!", "")]).unwrap_err();
        assert!(matches!(&refused, Error::Credentials { message, .. } if message == "no!"), "{refused}");
        let first = "r=ownx,s=AA==,i=4096";
        let unproved =
            authenticate(true, &[TAKEN, &answer(0, "", first), &answer(0, "", "v=AAAA")]).unwrap_err();
        assert!(unproved.to_string().ends_with("so it does not know this password"), "{unproved}");
        let error =
            authenticate(true, &[TAKEN, &answer(0, "", first), &answer(0, "", "e=other-error")]).unwrap_err();
        assert!(matches!(&error, Error::Credentials { message, .. } if message == "other-error"), "{error}");
        let empty = authenticate(true, &[TAKEN, &answer(0, "", first), &answer(0, "", "")]).unwrap_err();
        let all = [other, refused, unproved, error, empty];
        assert!(all.iter().all(|error| !error.to_string().contains(char::is_control)));
    }

    #[test]
    fn truncated_response_does_not_authenticate() {
        let plain = [TAKEN, &answer(0, "", "")];
        authenticate(false, &plain).unwrap();
        for (at, whole) in plain.iter().enumerate() {
            for end in 0..whole.len() {
                let mut answers = plain;
                answers[at] = &whole[..end];
                let error = authenticate(false, &answers).unwrap_err();
                assert!(matches!(error, Error::Answer { .. }), "{error}");
            }
        }
    }
}

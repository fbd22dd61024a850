//! The client side of SCRAM (RFC 5802, RFC 7677).
//! As in Kafka, with SHA-256 and SHA-512, without channel binding. Sends nothing. The caller limits the size of the
//! server's messages. Fuzzed by: settings.

use std::io;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Accepted iteration counts.
/// The minimum is Kafka's (`ScramMechanism`); KRaft brokers store passwords with 16,384 at most, and ten times as many
/// take tens of milliseconds of a CPU that the broker may need.
const ITERATIONS: RangeInclusive<u32> = 4_096..=200_000;
/// The header of a client without channel binding, and its base64 form.
const GS2_HEADER: &str = "n,,";
const CHANNEL_BINDING: &str = "biws";
const NONCE_BYTES: usize = 24;

/// A hash algorithm, in ring's form for each use.
pub(super) struct Hash {
    pbkdf2: pbkdf2::Algorithm,
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
}

/// `SCRAM-SHA-256`.
pub(super) static SHA_256: Hash =
    Hash { pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256, hmac: hmac::HMAC_SHA256, digest: &digest::SHA256 };
/// `SCRAM-SHA-512`.
pub(super) static SHA_512: Hash =
    Hash { pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512, hmac: hmac::HMAC_SHA512, digest: &digest::SHA512 };

/// Generates a unique nonce of printable characters without a comma.
pub(super) fn nonce() -> io::Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(STANDARD.encode(bytes))
}

/// The client's side of one exchange.
pub(super) struct Client<'a> {
    hash: &'static Hash,
    password: &'a str,
    nonce: &'a str,
    /// The client's first message without the header.
    bare: String,
}

impl<'a> Client<'a> {
    /// Starts an exchange. User name and password must be ASCII, which `SASLprep` leaves unchanged.
    pub(super) fn new(hash: &'static Hash, username: &str, password: &'a str, nonce: &'a str) -> Self {
        let escaped = username.replace('=', "=3D").replace(',', "=2C");
        Self { hash, password, nonce, bare: format!("n={escaped},r={nonce}") }
    }

    /// The first message.
    pub(super) fn first_message(&self) -> String {
        format!("{GS2_HEADER}{}", self.bare)
    }

    /// The client's final message, and the proof to expect from the server.
    /// The message proves the password.
    ///
    /// # Errors
    /// What is wrong with the server's first message.
    pub(super) fn prove(&self, server_first: &[u8]) -> Result<(String, ServerProof), String> {
        let challenge = Challenge::parse(server_first, self.nonce)?;
        let salted = self.salted_password(&challenge);
        let of_key = |name: &str| hmac::sign(&salted, name.as_bytes());
        let client_key = of_key("Client Key");
        let stored_key = digest::digest(self.hash.digest, client_key.as_ref());
        let bare = format!("c={CHANNEL_BINDING},r={}", challenge.nonce);
        let messages = format!("{},{},{bare}", self.bare, challenge.message);
        let signature = hmac::sign(&hmac::Key::new(self.hash.hmac, stored_key.as_ref()), messages.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let server_key = hmac::Key::new(self.hash.hmac, of_key("Server Key").as_ref());
        Ok((format!("{bare},p={}", STANDARD.encode(proof)), ServerProof { server_key, messages }))
    }

    fn salted_password(&self, challenge: &Challenge<'_>) -> hmac::Key {
        let mut salted = vec![0; self.hash.digest.output_len()];
        let password = self.password.as_bytes();
        pbkdf2::derive(self.hash.pbkdf2, challenge.iterations, &challenge.salt, password, &mut salted);
        hmac::Key::new(self.hash.hmac, &salted)
    }
}

/// The proof that a server that knows the password sends last.
pub(super) struct ServerProof {
    server_key: hmac::Key,
    messages: String,
}

/// Reason why a server's final message is not a proof.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoProof {
    /// The server refuses the client's proof, with a reason.
    Refusal(String),
    /// The message is invalid.
    Invalid(&'static str),
}

impl ServerProof {
    /// Checks the server's final message.
    pub(super) fn check(&self, server_final: &[u8]) -> Result<(), NoProof> {
        const NO_MESSAGE: NoProof = NoProof::Invalid("its last SCRAM message is malformed");
        let message = std::str::from_utf8(server_final).map_err(|_| NO_MESSAGE)?;
        let first = message.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(NoProof::Refusal(error.to_owned()));
        }
        let signature = first.strip_prefix("v=").ok_or(NO_MESSAGE)?;
        let signature = STANDARD.decode(signature).map_err(|_| NO_MESSAGE)?;
        hmac::verify(&self.server_key, self.messages.as_bytes(), &signature)
            .map_err(|_| NoProof::Invalid("its SCRAM signature is wrong, so it does not know this password"))
    }
}

/// A server's first message.
struct Challenge<'a> {
    message: &'a str,
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl<'a> Challenge<'a> {
    /// Parses `r=NONCE,s=SALT,i=ITERATIONS`, with optional extensions.
    fn parse(message: &'a [u8], client_nonce: &str) -> Result<Self, String> {
        const MALFORMED: &str = "its first SCRAM message is malformed";
        let message = std::str::from_utf8(message).map_err(|_| MALFORMED)?;
        let mut attributes = message.split(',');
        let mut attribute = |name: &str| attributes.next().and_then(|text| text.strip_prefix(name));
        let nonce = attribute("r=").ok_or(MALFORMED)?;
        let is_ours = nonce.strip_prefix(client_nonce).is_some_and(|own| !own.is_empty());
        if !is_ours {
            return Err("its SCRAM nonce does not continue the client's".to_owned());
        }
        let salt = attribute("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or(MALFORMED)?;
        let iterations: u32 = attribute("i=").and_then(|number| number.parse().ok()).ok_or(MALFORMED)?;
        let (min, max) = (ITERATIONS.start(), ITERATIONS.end());
        let bounded = Some(iterations).filter(|iterations| ITERATIONS.contains(iterations));
        let bounded = bounded.and_then(NonZeroU32::new).ok_or_else(|| {
            format!("it asks for {iterations} iterations of SCRAM; from {min} to {max} are supported")
        })?;
        Ok(Self { message, nonce, salt, iterations: bounded })
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Hash, NoProof, SHA_256, SHA_512, digest, hmac, nonce, pbkdf2};

    /// Only for the example in RFC 5802.
    static SHA_1: Hash = Hash {
        pbkdf2: pbkdf2::PBKDF2_HMAC_SHA1,
        hmac: hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        digest: &digest::SHA1_FOR_LEGACY_USE_ONLY,
    };
    const RFC_7677: [&str; 5] = [
        "rOprNGfwEbeRWgbNEkqO",
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ];

    #[track_caller]
    fn holds(hash: &'static Hash, [nonce, first, server_first, last, server_last]: [&str; 5]) {
        let client = Client::new(hash, "user", "pencil", nonce);
        assert_eq!(client.first_message(), first);
        let (message, proof) = client.prove(server_first.as_bytes()).unwrap();
        assert_eq!(message, last);
        assert_eq!(proof.check(server_last.as_bytes()), Ok(()));
    }

    #[test]
    fn matches_the_examples_of_the_rfcs() {
        holds(
            &SHA_1,
            [
                "fyko+d2lbbFgONRv9qkxdawL",
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ],
        );
        holds(&SHA_256, RFC_7677);
    }

    /// Computed with Python's hashlib, because no RFC has an example.
    #[test]
    fn sha_512_matches_another_implementation() {
        holds(&SHA_512, SHA_512_EXAMPLE);
    }

    const SHA_512_EXAMPLE: [&str; 5] = [
        "rOprNGfwEbeRWgbNEkqO",
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=8192",
        "c=biws,r=rOprNGfwEbeRWgbNEkqOabc,\
         p=m+wqtNXQjBAPHTg0j9xc3WyP9q+LkulzqxQtUJNJENWYgtu06uePlfJ8AiGe5euCYQSSatvbnkMifRvGjydQ2g==",
        "v=0iABDkAgWN4G01ClSoe3Xli9l7PPG3cfQFBkZuMBHnZmHJTTdYR6xLxBjVF3l2J/X59rdSLMFZmzBR5Pn1DqYw==",
    ];

    #[test]
    fn escapes_separators_in_a_user_name() {
        let client = Client::new(&SHA_256, "a=b,c", "x", "n");
        assert_eq!(client.first_message(), "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn refuses_malformed_foreign_or_expensive_challenges() {
        let client = Client::new(&SHA_256, "user", "pencil", "own");
        let why = |message: &[u8]| client.prove(message).err().unwrap();
        for malformed in ["", "r=", "s=AA==,r=ownx,i=4096", "m=x,r=ownx,s=AA==,i=4096", "r=ownx,s=!,i=4096"] {
            assert!(why(malformed.as_bytes()).contains("SCRAM"), "{malformed}");
        }
        for number in ["", "-1", "4096x", "99999999999"] {
            let malformed = format!("r=ownx,s=AA==,i={number}");
            assert_eq!(why(malformed.as_bytes()), "its first SCRAM message is malformed", "{number}");
        }
        for nonce in ["own", "other", "ow"] {
            let message = format!("r={nonce},s=AA==,i=4096");
            assert_eq!(why(message.as_bytes()), "its SCRAM nonce does not continue the client's", "{nonce}");
        }
        for iterations in ["0", "1", "4095", "200001", "4294967295"] {
            let message = format!("r=ownx,s=AA==,i={iterations}");
            let expected =
                format!("it asks for {iterations} iterations of SCRAM; from 4096 to 200000 are supported");
            assert_eq!(why(message.as_bytes()), expected);
        }
        assert_eq!(why(b"r=ownx\xff,s=AA==,i=4096"), "its first SCRAM message is malformed");
        client.prove(b"r=ownx,s=AA==,i=4096,x=extension").unwrap();
    }

    #[test]
    fn refuses_a_server_that_does_not_know_the_password() {
        let [nonce, _, server_first, _, right] = RFC_7677;
        let client = Client::new(&SHA_256, "user", "pencil", nonce);
        let (_, proof) = client.prove(server_first.as_bytes()).unwrap();
        let wrong = right.replace("6rr", "7rr");
        assert!(
            matches!(proof.check(wrong.as_bytes()), Err(NoProof::Invalid(why)) if why.contains("signature"))
        );
        for message in ["", "v=", "v=!", "v=AAAA", "x=1", &right[..20]] {
            assert!(matches!(proof.check(message.as_bytes()), Err(NoProof::Invalid(_))), "{message}");
        }
        let refusal = proof.check(b"e=invalid-proof,x=1");
        assert_eq!(refusal, Err(NoProof::Refusal("invalid-proof".to_owned())));
        let other = Client::new(&SHA_256, "user", "crayon", nonce);
        let (_, proof) = other.prove(server_first.as_bytes()).unwrap();
        proof.check(right.as_bytes()).unwrap_err();
    }

    #[test]
    fn nonces_differ() {
        let [one, other] = [nonce().unwrap(), nonce().unwrap()];
        assert!(one != other && one.len() == 32 && !one.contains(','), "{one} {other}");
    }
}

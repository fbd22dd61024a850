//! `DescribeConfigs`, for a tool that asks a broker for the broker's settings: encodes the request and parses the
//! answer. Sends nothing.
//!
//! Version 1 only, which Kafka 1.1 to 4.x support (`DescribeConfigsRequest.json` of 4.1: versions 1 to 4;
//! `DescribeConfigsResponse.json`):
//!
//! ```text
//! request   resources => type INT8, name STRING, keys NULLABLE_ARRAY of STRING; include_synonyms BOOLEAN
//! response  throttle_time_ms INT32; results => error_code INT16, error_message NULLABLE_STRING, type INT8, name STRING,
//!           configs => name STRING, value NULLABLE_STRING, read_only BOOLEAN, source INT8, is_sensitive BOOLEAN,
//!                      synonyms => name STRING, value NULLABLE_STRING, source INT8
//! ```

use crate::frame_writer::FrameWriter;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The version used.
pub const VERSION: i16 = 1;
/// `ConfigResource.Type.BROKER`.
const BROKER: i8 = 4;
/// The length of a null array.
const NULL: i32 = -1;

/// Encodes a whole frame that asks a broker for all its settings. The frame includes its length.
pub fn broker_request(node_id: i32, correlation_id: i32, client_id: &str) -> Vec<u8> {
    let mut frame = FrameWriter::new(ApiKey::DESCRIBE_CONFIGS, VERSION, correlation_id, client_id);
    frame.i32(1);
    frame.i8(BROKER);
    frame.string(&node_id.to_string());
    frame.i32(NULL);
    // No synonyms: the effective value is enough.
    frame.i8(0);
    frame.finish()
}

/// A response about one resource.
#[derive(Clone, Debug)]
pub struct DescribeConfigsResponse<'a> {
    /// Kafka's error code; 0 means none.
    pub error_code: i16,
    /// The broker's error message.
    pub error_message: Option<&'a str>,
    configs: Configs<'a>,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value; `None` if it has none, or it is secret.
    pub value: Option<&'a str>,
    /// Its origin.
    pub source: Source,
}

/// The origin of a setting (`DescribeConfigsResponse.ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Changed while the broker runs, for this broker (2) or for all (3).
    Dynamic,
    /// The broker's file.
    Static,
    /// Kafka's default.
    Default,
    /// Another source, by its number.
    Other(i8),
}

impl Source {
    fn of(number: i8) -> Self {
        match number {
            2 | 3 => Self::Dynamic,
            4 => Self::Static,
            5 => Self::Default,
            other => Self::Other(other),
        }
    }
}

impl<'a> DescribeConfigsResponse<'a> {
    /// Parses and checks the whole body of the answer to [`broker_request`].
    ///
    /// # Errors
    /// Errors in the body, which must have exactly one resource.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let _throttle_ms = reader.i32()?;
        if reader.array_length(false)? != 1 {
            return Err(reader.error(ErrorKind::BadValue));
        }
        let error_code = reader.i16()?;
        let error_message = reader.nullable_string(false)?;
        let _type = reader.i8()?;
        let _name = reader.string(false)?;
        let left = reader.array_length(false)?;
        let configs = Configs { reader, left };
        let mut walk = configs.clone();
        while walk.read_next()?.is_some() {}
        walk.reader.finish()?;
        Ok(Self { error_code, error_message, configs })
    }

    /// The settings, in order.
    pub fn configs(&self) -> Configs<'a> {
        self.configs.clone()
    }
}

/// Iterates over the settings of a [`DescribeConfigsResponse`].
#[derive(Clone, Debug)]
pub struct Configs<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Configs<'a> {
    fn read_next(&mut self) -> Result<Option<Config<'a>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (name, value) = (self.reader.string(false)?, self.reader.nullable_string(false)?);
        let _read_only = self.reader.u8()?;
        let source = Source::of(self.reader.i8()?);
        let is_sensitive = self.reader.u8()? != 0;
        for _ in 0..self.reader.array_length(false)? {
            self.reader.string(false)?;
            self.reader.nullable_string(false)?;
            self.reader.i8()?;
        }
        Ok(Some(Config { name, value: value.filter(|_| !is_sensitive), source }))
    }
}

impl<'a> Iterator for Configs<'a> {
    type Item = Config<'a>;

    fn next(&mut self) -> Option<Config<'a>> {
        // All of them were validated by `parse`.
        self.read_next().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{DescribeConfigsResponse, Source, broker_request};
    use crate::ErrorKind;

    #[test]
    fn encodes_a_request_for_all_settings_of_one_broker() {
        let expected = [
            &[0, 0, 0, 26][..],
            &[0, 32, 0, 1, 0, 0, 0, 7, 0, 2, b'b', b's'],
            &[0, 0, 0, 1, 4, 0, 2, b'1', b'2'],
            &[0xff, 0xff, 0xff, 0xff, 0],
        ]
        .concat();
        assert_eq!(broker_request(12, 7, "bs"), expected);
        let long = broker_request(1, 1, &"é".repeat(40_000));
        assert_eq!(
            long.len(),
            4 + 4 + 4 + 2 + 32_766 + 4 + 1 + 3 + 4 + 1,
            "a string is cut between characters"
        );
    }

    #[test]
    fn parses_settings_with_their_source_and_without_secrets() {
        let config = |name: &str, value: &str, source: u8, secret: u8| {
            let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
            [text(name), text(value), vec![0, source, secret, 0, 0, 0, 0]].concat()
        };
        let configs =
            [config("a", "1", 2, 0), config("b", "2", 4, 1), config("c", "3", 5, 0), config("d", "4", 9, 0)];
        let head = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 4, 0, 1, b'1', 0, 0, 0, 4];
        let body = [&head[..], &configs.concat()].concat();
        let answer = DescribeConfigsResponse::parse(&body).unwrap();
        assert_eq!((answer.error_code, answer.error_message), (0, None));
        let configs: Vec<_> =
            answer.configs().map(|config| (config.name, config.value, config.source)).collect();
        assert_eq!(
            configs,
            [
                ("a", Some("1"), Source::Dynamic),
                ("b", None, Source::Static),
                ("c", Some("3"), Source::Default),
                ("d", Some("4"), Source::Other(9)),
            ]
        );
        for end in 0..body.len() {
            DescribeConfigsResponse::parse(&body[..end]).unwrap_err();
        }
        let one_more = DescribeConfigsResponse::parse(&[&body[..], &[0]].concat()).unwrap_err();
        assert_eq!(one_more.kind, ErrorKind::TrailingBytes);
    }

    #[test]
    fn counts_without_elements_are_errors() {
        let two = [0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(DescribeConfigsResponse::parse(&two).unwrap_err().kind, ErrorKind::BadValue);
        let many = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 4, 0, 0, 0x7f, 0xff, 0xff, 0xff];
        assert!(matches!(
            DescribeConfigsResponse::parse(&many).unwrap_err().kind,
            ErrorKind::UnexpectedEnd { .. }
        ));
    }
}

//! Every API of Kafka 4.2 and of earlier brokers: names, versions, header versions, and the contents of requests and
//! responses. Everything follows from one table.

pub(crate) mod layout;
mod table;

use std::fmt;

use crate::{Error, ErrorKind};
use layout::{BodyReader, Layout, Levels};
pub use layout::{Number, Values};
use table::{APIS, Api};

/// An API key as in a request header, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

impl ApiKey {
    fn api(self) -> Option<&'static Api> {
        usize::try_from(self.0).ok().and_then(|key| APIS.get(key))
    }

    /// All known keys.
    pub fn known() -> impl Iterator<Item = Self> {
        (0..APIS.len()).map(|key| Self(key as i16))
    }

    /// Whether Kafka 4.2 or an earlier release has this API.
    #[inline]
    pub fn is_known(self) -> bool {
        self.api().is_some()
    }

    /// Kafka's name for it (`PRODUCE`), or `UNKNOWN`.
    pub fn name(self) -> &'static str {
        self.api().map_or("UNKNOWN", |api| api.name)
    }

    /// The highest known version; `None` for an unknown key.
    #[inline]
    pub fn max_version(self) -> Option<i16> {
        self.api().map(|api| api.max_version)
    }

    /// Whether the API is known and this version is newer than all known ones.
    #[inline]
    pub fn is_newer(self, version: i16) -> bool {
        self.max_version().is_some_and(|max| version > max)
    }

    /// Whether this version has compact types and tagged fields.
    /// Unknown keys and versions are newer than this table, and every version since KIP-482 is flexible.
    #[inline]
    pub fn is_flexible(self, version: i16) -> bool {
        self.api().map_or(self.0 >= 0, |api| version >= api.first_flexible || version > api.max_version)
    }

    /// The version of the request header before a body of this version: 0, 1 or 2.
    #[inline]
    pub fn request_header_version(self, version: i16) -> i16 {
        match (self, version) {
            // RequestHeader.json: version 0 is only used by version 0 of ControlledShutdown.
            (Self::CONTROLLED_SHUTDOWN, 0) => 0,
            _ if self.is_flexible(version) => 2,
            _ => 1,
        }
    }

    /// The version of the response header before a body of this version: 0 or 1.
    #[inline]
    pub fn response_header_version(self, version: i16) -> i16 {
        // ApiVersionsResponse.json: tagged fields are only in the body, so that a client that does not know the
        // broker's versions yet can read the answer (KIP-511).
        i16::from(self != Self::API_VERSIONS && self.is_flexible(version))
    }
}

/// Kafka's error code for a version that the broker does not know.
const UNSUPPORTED_VERSION: i16 = 35;

/// How the extracted fields of a response are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseShape {
    /// Piece by piece: it contains or acknowledges records, and may be too large to buffer.
    Records,
    /// Whole, row by row.
    Rows,
    /// From its first bytes; all fields before them have a fixed length.
    Front,
    /// After fields of variable length.
    Within,
    /// There are none, or the layout is unknown.
    None,
}

impl ApiKey {
    /// Whether this version is flexible; for an unknown version, an error with its position in a request's header.
    pub(crate) fn check_version(self, version: i16) -> Result<bool, Error> {
        match self.api() {
            Some(api) if (api.min_version..=api.max_version).contains(&version) => {
                Ok(self.is_flexible(version))
            }
            Some(_) => Err(Error::new(ErrorKind::UnsupportedVersion(version), 2)),
            None => Err(Error::new(ErrorKind::UnknownApi(self.0), 0)),
        }
    }

    /// Whether [`Self::read_request`] has something to read.
    pub(crate) fn has_request_layout(self) -> bool {
        self.api().is_some_and(|api| !api.request.is_empty())
    }

    /// Whether its requests list partitions.
    pub(crate) fn names_partitions(self) -> bool {
        self.api().is_some_and(|api| layout::has_rows(api.request))
    }

    /// Reads and checks the whole body of a request.
    /// `row` gets the values at the end of each partition; authentication tokens are not passed on.
    ///
    /// # Errors
    /// `UnknownApi` and `UnsupportedVersion`, also if the layout is not known, and errors in the body.
    pub fn read_request<'a>(
        self,
        body: &'a [u8],
        version: i16,
        mut row: impl FnMut(&Values<'a>),
    ) -> Result<Values<'a>, Error> {
        let flexible = self.check_version(version)?;
        let Some(api) = self.api().filter(|api| !api.request.is_empty()) else {
            return Err(Error::new(ErrorKind::UnsupportedVersion(version), 2));
        };
        let mut body = BodyReader::new(body, version, flexible);
        body.read(api.request, &mut row)?;
        body.reader.tagged_fields(flexible)?;
        body.reader.finish()?;
        Ok(body.values)
    }

    /// How to read an answer to a request of this version: layout and version. `ApiVersions` is how a client learns
    /// what the broker knows: a broker that does not know the requested version answers in version 0, and every answer
    /// begins with the error code (KIP-511).
    fn response_layout(self, version: i16) -> (Layout, i16) {
        if self == Self::API_VERSIONS && self.is_newer(version) {
            return (&[layout::spelling::ERROR], 0);
        }
        (self.api().map_or(&[][..], |api| api.response), version)
    }

    /// How an answer to a request of this version is read.
    pub(crate) fn response_shape(self, version: i16) -> ResponseShape {
        let (layout, version) = self.response_layout(version);
        if matches!(self, Self::FETCH | Self::SHARE_FETCH | Self::SHARE_ACKNOWLEDGE) {
            ResponseShape::Records
        } else if layout::has_rows(layout) {
            ResponseShape::Rows
        } else if self.check_version(version).is_err() || layout::is_empty(layout, version) {
            ResponseShape::None
        } else if layout::is_fixed(layout, version) {
            ResponseShape::Front
        } else {
            ResponseShape::Within
        }
    }

    /// Reads an answer to a request of this version.
    /// One that lists topics or APIs is read whole, with `row` as in [`Self::read_request`]; of others, only the
    /// throttle time and the error code.
    ///
    /// # Errors
    /// `UnknownApi`, `UnsupportedVersion`, and errors in the part of the body that is read.
    pub fn read_response<'a>(
        self,
        body: &'a [u8],
        version: i16,
        mut row: impl FnMut(&Values<'a>),
    ) -> Result<Values<'a>, Error> {
        let (layout, version) = self.response_layout(version);
        let flexible = self.check_version(version)?;
        // A broker older than the version answers like this as well, whether or not the version is known here.
        let refused = self == Self::API_VERSIONS && body.starts_with(&UNSUPPORTED_VERSION.to_be_bytes());
        let (version, flexible) = if refused { (0, false) } else { (version, flexible) };
        let mut body = BodyReader::new(body, version, flexible);
        body.read(layout, &mut row)?;
        if layout::has_rows(layout) {
            body.reader.tagged_fields(flexible)?;
            body.reader.finish()?;
        }
        Ok(body.values)
    }

    /// The layout for reading a request that lists partitions piece by piece.
    pub(crate) fn request_levels(self, version: i16) -> Result<Levels, Error> {
        self.levels(version, |api| api.request)
    }

    /// Like `request_levels`, for a response.
    pub(crate) fn response_levels(self, version: i16) -> Result<Levels, Error> {
        self.levels(version, |api| api.response)
    }

    fn levels(self, version: i16, layout: fn(&Api) -> Layout) -> Result<Levels, Error> {
        let flexible = self.check_version(version)?;
        let levels = self.api().and_then(|api| Levels::of(layout(api), version, flexible));
        levels.ok_or(Error::new(ErrorKind::UnknownApi(self.0), 0))
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;
    use super::table::APIS;

    #[test]
    fn header_versions_follow_the_schemas() {
        for (key, version, request, response) in [
            (0, 8, 1, 0),
            (0, 9, 2, 1),
            (0, 13, 2, 1),
            (1, 11, 1, 0),
            (1, 12, 2, 1),
            (7, 0, 0, 0),
            (7, 1, 1, 0),
            (7, 3, 2, 1),
            (17, 1, 1, 0),
            (18, 2, 1, 0),
            (18, 3, 2, 0),
            (47, 0, 1, 0),
            (52, 0, 2, 1),
            (92, 0, 2, 1),
        ] {
            let key = ApiKey(key);
            assert_eq!(key.request_header_version(version), request, "{key:?} v{version}");
            assert_eq!(key.response_header_version(version), response, "{key:?} v{version}");
        }
    }

    #[test]
    fn names_known_and_unknown_keys() {
        assert_eq!(ApiKey(0).name(), "PRODUCE");
        assert_eq!(ApiKey(25).name(), "ADD_OFFSETS_TO_TXN");
        assert_eq!(ApiKey(92).name(), "DELETE_SHARE_GROUP_OFFSETS");
        for key in [-1, 93, i16::MAX, i16::MIN] {
            assert_eq!(ApiKey(key).name(), "UNKNOWN");
            assert_eq!(ApiKey(key).max_version(), None);
        }
        assert_eq!(ApiKey(0).max_version(), Some(13));
        assert!(!ApiKey(17).is_flexible(1));
        assert_eq!(ApiKey::known().count(), APIS.len());
    }

    #[test]
    fn header_versions_agree_with_another_implementation() {
        for key in ApiKey::known() {
            let Ok(theirs) = kafka_protocol::messages::ApiKey::try_from(key.0) else { continue };
            let range = theirs.valid_versions();
            for version in range.min..=range.max.min(key.max_version().unwrap()) {
                assert_eq!(
                    key.request_header_version(version),
                    theirs.request_header_version(version),
                    "{key:?} v{version}"
                );
                assert_eq!(
                    key.response_header_version(version),
                    theirs.response_header_version(version),
                    "{key:?} v{version}"
                );
            }
        }
    }
}

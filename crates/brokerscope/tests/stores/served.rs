//! A server on loopback that lists and sends files as a bucket called `b`. It implements S3's protocol as far as
//! needed for that, and gives other answers on request. Checks no signatures: the workspace's `tests/stores.rs` has a
//! server that does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// An answer that a good store would not give.
pub(crate) enum Odd {
    Status(u16, &'static str),
    /// A redirect within this server.
    Redirect,
    /// This body in place of a list.
    Body(&'static str),
    /// This many bytes.
    Long(usize),
    /// No answer.
    Silence,
}

/// Chooses the odd answer to a request, by its target.
pub(crate) type Oddity = fn(&str) -> Option<Odd>;

/// A server; its thread ends with the test.
pub(crate) struct StoreServer {
    pub(crate) address: SocketAddr,
    requested_targets: Arc<Mutex<Vec<String>>>,
}

impl StoreServer {
    pub(crate) fn start(files: &Path, odd: Oddity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requested_targets = Arc::<Mutex<Vec<String>>>::default();
        let (noted, files) = (Arc::clone(&requested_targets), files.to_owned());
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (noted, files) = (Arc::clone(&noted), files.clone());
                // The client may disconnect before the answer.
                std::thread::spawn(move || answer(connection, &noted, &files, odd));
            }
        });
        Self { address, requested_targets }
    }

    /// The requested targets, in order.
    pub(crate) fn requested_targets(&self) -> Vec<String> {
        self.requested_targets.lock().unwrap().clone()
    }
}

fn answer(mut connection: TcpStream, noted: &Mutex<Vec<String>>, files: &Path, odd: Oddity) -> Option<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let target = decoded(head.split(' ').nth(1)?);
    noted.lock().unwrap().push(target.clone());
    let (head, body) = match odd(&target) {
        Some(Odd::Silence) => {
            // Until the client disconnects.
            let _ = connection.read(&mut byte);
            return None;
        }
        Some(Odd::Status(status, code)) => {
            let body = format!("<Error><Code>{code}</Code><Message>Not today.</Message></Error>");
            (format!("{status} Odd\r\n"), body.into_bytes())
        }
        Some(Odd::Redirect) => ("307 Odd\r\nLocation: /b?elsewhere\r\n".to_owned(), Vec::new()),
        Some(Odd::Body(body)) => ("200 OK\r\n".to_owned(), body.into()),
        Some(Odd::Long(bytes)) => ("200 OK\r\n".to_owned(), vec![b' '; bytes]),
        None => match target.strip_prefix("/b?") {
            Some(query) => {
                ("200 OK\r\nContent-Type: application/xml\r\n".to_owned(), list(files, query).into_bytes())
            }
            None => object(&files.join(target.strip_prefix("/b/")?), &head)?,
        },
    };
    write!(connection, "HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()).ok()?;
    connection.write_all(&body).ok()
}

/// Decodes percent-encoding (RFC 3986, 2.1).
fn decoded(target: &str) -> String {
    let mut pieces = target.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

/// `ListObjectsV2`, all on one page.
fn list(files: &Path, query: &str) -> String {
    let prefix = query.split('&').find_map(|field| field.strip_prefix("prefix=")).unwrap_or_default();
    let mut found = BTreeMap::new();
    walk(files, files, &mut found);
    let mut list = "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>".to_owned();
    for (key, bytes) in found.iter().filter(|(key, _)| key.starts_with(prefix)) {
        let about = "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag>";
        write!(list, "<Contents><Key>{key}</Key>{about}<Size>{bytes}</Size></Contents>").unwrap();
    }
    list + "</ListBucketResult>"
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path: PathBuf = entry.path();
        if path.is_dir() {
            walk(root, &path, found);
        } else {
            let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(key, entry.metadata().unwrap().len());
        }
    }
}

/// A range of a file: clients never request a whole one.
fn object(path: &Path, head: &str) -> Option<(String, Vec<u8>)> {
    let range = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned))?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    let bytes = fs::read(path).ok()?;
    let head = format!(
        "206 Partial Content\r\nETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Range: bytes {first}-{last}/{}\r\n",
        bytes.len()
    );
    Some((head, bytes.get(first..=last)?.to_vec()))
}

//! Writes the inputs that the corpora start from. Each target has a folder below the given one. The inputs are frames
//! and bodies as another implementation of the protocol writes them, captures of them, and a capture of a real client
//! and broker. libFuzzer decides which of them are worth keeping (`fuzz/run corpus`).

// A program for those who work on this project: it stops where something is amiss.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "seeds/captures.rs"]
mod captures;
#[path = "seeds/dumps.rs"]
mod dumps;
#[path = "seeds/http.rs"]
mod http;
#[path = "../../crates/wire/tests/fixtures/kafka.rs"]
mod kafka;
#[path = "seeds/log_dirs.rs"]
mod log_dirs;
#[path = "seeds/logs.rs"]
mod logs;
#[path = "seeds/parts.rs"]
mod parts;
#[path = "../../crates/jvm/tests/jfr/writer.rs"]
mod recordings;
#[path = "seeds/records.rs"]
mod records;
#[path = "seeds/settings.rs"]
mod settings;
#[path = "seeds/store.rs"]
mod store;
#[path = "seeds/symbols.rs"]
mod symbols;

use std::fs;
use std::path::{Path, PathBuf};

use wire::ApiKey;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder to write into"));
    write(&folder, "frame", &frames());
    write(&folder, "produce", &produce());
    write(&folder, "fetch", &fetch());
    write(&folder, "attach", &attach());
    write(&folder, "batch", &records::seeds());
    write(&folder, "dump", &dumps::seeds());
    write(&folder, "http", &http::seeds());
    write(&folder, "log", &logs::seeds());
    write(&folder, "reassembly", &reassembly());
    write(&folder, "recording", &parts::seeds());
    write(&folder, "plaintext", &plaintext());
    write(&folder, "rows", &[watch::fuzzing::request(), watch::fuzzing::jfr_event()]);
    write(&folder, "segment", &log_dirs::seeds());
    write(&folder, "settings", &settings::seeds());
    write(&folder, "store", &store::seeds());
    write(&folder, "symbols", &symbols::seeds());
    write(&folder, "jfr", &recordings());
    write(&folder, "tail", &tails());
    write(&folder, "pcap", &captures::pcap());
    write(&folder, "pcapng", &captures::pcapng());
    write(&folder, "analyzer", &captures::conversations(&requests(), &responses()));
}

fn write(folder: &Path, target: &str, seeds: &[Vec<u8>]) {
    let folder = folder.join(target);
    fs::create_dir_all(&folder).expect("the folder can be made");
    for (i, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("{i:03}")), seed).expect("the folder can be written to");
    }
}

/// A nonce, and a ring with records of bytes that were read and written.
fn plaintext() -> Vec<Vec<u8>> {
    let nonce = 7_u64;
    let record = |position: u64, flags: u32, bytes: &[u8]| {
        let mut record = (nonce ^ (position + 1)).to_ne_bytes().to_vec();
        record.extend((bytes.len() as u32).to_ne_bytes());
        record.extend(flags.to_ne_bytes());
        record.resize(88, 1);
        record.extend(bytes);
        record.resize(record.len().next_multiple_of(8), 0);
        record
    };
    let mut ring = nonce.to_ne_bytes().to_vec();
    let position = |ring: &Vec<u8>| ring.len() as u64 - 8;
    for (request, response) in requests().iter().zip(&responses()).take(3) {
        for (flags, bytes) in [(2, &request[..4]), (0, &request[4..]), (1, &response[..])] {
            let next = record(position(&ring), flags, bytes);
            ring.extend(next);
        }
    }
    vec![ring]
}

/// Requests of every version of Produce and Fetch. Also some whose bodies are not read.
fn requests() -> Vec<Vec<u8>> {
    let batch = kafka::batch(kafka::CODECS[0], &["a", "b"], 12);
    let set = [kafka::message(0, 0, 0, -1, b"one"), kafka::message(1, 1, 0, 5, b"two")].concat();
    let mut all = Vec::new();
    for version in 0..=2 {
        let head = [0, 0, 0, version, 0, 0, 0, version, 0, 1, b'c'];
        all.push(kafka::sized(&[&head[..], &kafka::old_produce_body("old", 2, &set)].concat()));
    }
    for version in 3..=13 {
        let number = fuzz::frame::correlation_id(ApiKey::PRODUCE, version);
        all.push(kafka::produce_request(version, number, &[("topicA", 0, batch.clone()), ("b", 1, vec![])]));
    }
    for version in 4..=18 {
        let number = fuzz::frame::correlation_id(ApiKey::FETCH, version);
        all.push(kafka::request(1, version, number, &kafka::fetch_body(version)));
    }
    for (api_key, version) in [(3, 12), (10, 4), (11, 7), (12, 4), (18, 3), (22, 4), (36, 2)] {
        let number = fuzz::frame::correlation_id(ApiKey(api_key), version);
        all.push(kafka::request(api_key, version, number, &[0; 9]));
    }
    all
}

/// Responses of the same.
fn responses() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut add = |api_key: ApiKey, version, body: Vec<u8>| {
        let number = fuzz::frame::correlation_id(api_key, version);
        all.push(kafka::response(api_key.0, version, number, &body));
    };
    (3..=13).for_each(|version| add(ApiKey::PRODUCE, version, kafka::produce_response_body(version)));
    (4..=18).for_each(|version| add(ApiKey::FETCH, version, kafka::fetch_response_body(version)));
    (0..=13).for_each(|version| add(ApiKey::METADATA, version, kafka::metadata_response_body(version)));
    add(ApiKey(10), 4, vec![0; 12]);
    all
}

/// Each frame alone; some between others, with and without losses.
fn frames() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0, 1, 0, 0, 0x16, 3, 1, 0, 9], b"\x02\x01\0\0GET / HTTP/1.1\r\n\r\n".to_vec()];
    for (responses, frames) in [(0, requests()), (1, responses())] {
        for (i, frame) in frames.iter().enumerate() {
            seeds.push([&[4 | responses, i as u8, 0, 0][..], frame].concat());
            let (before, after) = (&frames[i / 2], &frames[frames.len() - 1 - i / 2]);
            let stream = [&before[..], frame, after].concat();
            let mode = [6, 8 | 4, 8 | 2, 8 | 16][i / 2 % 4];
            if i % 2 == 0 {
                let loss = [(before.len() / 4 + i) as u8, 9 * (i as u8 % 20)];
                seeds.push([&[mode | responses, i as u8][..], &loss, &stream].concat());
            }
        }
    }
    seeds
}

/// One chunk, and two.
fn recordings() -> Vec<Vec<u8>> {
    let chunk = recordings::recording();
    vec![[&chunk[..], &chunk].concat(), chunk]
}

/// A chunk whose header says how far it is written. Another one says from the start that it is complete.
fn tails() -> Vec<Vec<u8>> {
    [0, 3].map(|mode| [&[mode], &recordings::recording()[..]].concat()).into()
}

/// What JVMs say to `getversion`, `VM.version` and what they do not know.
fn attach() -> Vec<Vec<u8>> {
    let answers: [&[u8]; 5] = [
        b"0\n2 streaming",
        b"-1\nOperation getversion not recognized!\n",
        b"0\nOpenJDK 64-Bit Server VM version 25.0.3+9-LTS\nJDK 25.0.3\n",
        b"100\n\n  java.lang.IllegalArgumentException: Unknown\x1b[31m diagnostic command\n",
        b"0\n\xc3\xa9\xff text",
    ];
    answers.iter().map(|answer| [&[0, 24], *answer].concat()).collect()
}

fn produce() -> Vec<Vec<u8>> {
    let batch = kafka::batch(kafka::CODECS[0], &["a"], 5);
    let mut seeds = Vec::new();
    for version in 0..=13u8 {
        let body = match version {
            0..=2 => kafka::old_produce_body("old", 1, &kafka::message(0, 0, 0, -1, b"one")),
            _ => kafka::produce_body(version.into(), &[("topicA", 1, Some(batch.clone())), ("b", 2, None)]),
        };
        seeds.push([&[(version + 1) << 1], &body[..]].concat());
        if version >= 3 {
            let body = kafka::produce_response_body(version.into());
            seeds.push([&[((version + 1) << 1) | 1], &body[..]].concat());
        }
    }
    let old = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0xd2];
    for (version, more) in [(0, &[][..]), (1, &[0, 0, 0, 9]), (2, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9])] {
        seeds.push([&[((version + 1) << 1) | 1], &old[..], more].concat());
    }
    seeds
}

fn fetch() -> Vec<Vec<u8>> {
    let request = |v: u8| [&[(v + 1) << 1], &kafka::fetch_body(v.into())[..]].concat();
    let response = |v: u8| [&[((v + 1) << 1) | 1, v], &kafka::fetch_response_body(v.into())[..]].concat();
    (0..=18).flat_map(|version| [request(version), response(version)]).collect()
}

/// In order, backwards, overlapping, cut, acknowledged early.
fn reassembly() -> Vec<Vec<u8>> {
    let step =
        |what: u8, place: u16, len: u8, kept: u8| [&[what], &place.to_be_bytes()[..], &[len, kept]].concat();
    let forwards: Vec<_> = (0..20).flat_map(|i| step(4, i * 40, 45, 45)).collect();
    let backwards: Vec<_> = (0..20).rev().flat_map(|i| step(4, i * 40, 45, 30)).collect();
    let holes: Vec<_> =
        (0..20).flat_map(|i| [step(4, i * 50, 30, 30), step(0, i * 50 - i, 0, 0)].concat()).collect();
    let at_hand: Vec<_> = (0..20).flat_map(|i| [step(2, i % 7, 9, 9), step(1, 0, 0, 0)].concat()).collect();
    let mut seeds = Vec::new();
    for (steps, limit) in
        [(forwards, 9), (backwards.clone(), 8), (backwards, 255), (holes, 40), (at_hand, 99)]
    {
        seeds.push([&(u32::MAX - 300).to_be_bytes()[..], &[limit], &steps].concat());
    }
    seeds
}

//! Captures of every format, and conversations as the target `analyzer` wants them. Does not read them.

use std::io::Write;

use wire::ApiKey;

/// Ports that the sample's broker may use are all looked at: a mode without ports told.
const FILE_AND_IDS: u8 = 1 | 4;

/// A capture of a real client and broker.
const SAMPLE: &[u8] = include_bytes!("../../../tests/data/sample.pcap");

/// Inputs of the target `pcap`.
pub(crate) fn pcap() -> Vec<Vec<u8>> {
    let packets: Vec<Vec<u8>> = (0..3).map(|i| vec![i; 20 + usize::from(i)]).collect();
    let mut seeds = Vec::new();
    for (i, magic) in [0xa1b2_c3d4, 0xa1b2_3c4d].into_iter().enumerate() {
        for (j, order) in [u32::to_le_bytes, u32::to_be_bytes].into_iter().enumerate() {
            seeds.push([&[(2 * i + j) as u8], &pcap_of(magic, order, 101, &packets)[..]].concat());
        }
    }
    seeds.push([&[9], &SAMPLE[..SAMPLE.len().min(1_500)]].concat());
    seeds
}

fn pcap_of(magic: u32, order: fn(u32) -> [u8; 4], link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file: Vec<u8> = [magic, 0x0002_0004, 0, 0, 262_144, link].into_iter().flat_map(order).collect();
    for (i, packet) in packets.iter().enumerate() {
        let len = packet.len() as u32;
        file.extend([1_700_000_000 + i as u32, 999, len, len + 3].into_iter().flat_map(order));
        file.extend(packet);
    }
    file
}

/// Inputs of the target `pcapng`.
pub(crate) fn pcapng() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, order) in [u32::to_le_bytes, u32::to_be_bytes].into_iter().enumerate() {
        let half = |number: u16| {
            let bytes = order(number.into());
            if i == 0 { [bytes[0], bytes[1]] } else { [bytes[2], bytes[3]] }
        };
        let numbers = |numbers: &[u32]| -> Vec<u8> { numbers.iter().copied().flat_map(order).collect() };
        let section =
            [order(0x1a2b_3c4d), order(if i == 0 { 1 } else { 1 << 16 }), [255; 4], [255; 4]].concat();
        let interface = |resolution: u8| {
            let link = [half(101), half(0)].concat();
            let options =
                [&half(9)[..], &half(1), &[resolution, 0, 0, 0], &half(14), &half(8), &[7; 8], &[0; 4]];
            [&link[..], &order(64), &options.concat()].concat()
        };
        let enhanced = [&numbers(&[1, 0x5_f5e1, 77, 5, 9])[..], b"hello\0\0\0"].concat();
        let simple = [&order(6)[..], b"simple\0\0"].concat();
        let obsolete = [&half(0)[..], &half(3), &numbers(&[0x5_f5e1, 78, 4, 4]), b"past"].concat();
        let blocks = [
            (0x0a0d_0d0a, &section),
            (1, &interface(6)),
            (1, &interface(0x8a)),
            (6, &enhanced),
            (5, &vec![0; 20]),
            (3, &simple),
            (2, &obsolete),
        ];
        let file: Vec<u8> = blocks.iter().flat_map(|(kind, body)| block(order, *kind, body)).collect();
        seeds.push([&[i as u8], &file[..]].concat());
        seeds.push([&[i as u8], &file[..], &file].concat());
    }
    seeds
}

fn block(order: fn(u32) -> [u8; 4], kind: u32, body: &[u8]) -> Vec<u8> {
    let len = order(12 + body.len() as u32);
    [&order(kind)[..], &len, body, &len].concat()
}

/// Inputs of the target `analyzer`: the real capture in slices, and made-up connections on which requests are
/// sent and answered, some of it late, twice, cut, or not captured.
pub(crate) fn conversations(requests: &[Vec<u8>], responses: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let (head, records) = SAMPLE.split_at(24);
    let bounds = record_bounds(records);
    for some in bounds.windows(9).step_by(8) {
        seeds.push([&[FILE_AND_IDS], head, &records[some[0]..some[8]]].concat());
    }
    seeds.extend(
        packed(&[head, &records[..bounds[4]]].concat()).map(|file| [&[FILE_AND_IDS], &file[..]].concat()),
    );
    for odd in [0, 0x10, 0x20, 0x40, 0x80] {
        for (i, request) in requests.iter().enumerate() {
            let api = fuzz::frame::request_of(number(request, 8));
            let answers =
                responses.iter().filter(|response| fuzz::frame::request_of(number(response, 4)) == api);
            let mut seed = vec![(i as u8 % 8) << 1];
            seed.extend([&[0x02 | 0x08, 0, 0, 0][..], &[0x02, 1, 0, 0]].concat());
            push_segments(&mut seed, 0, odd, request);
            answers.for_each(|response| push_segments(&mut seed, 1, odd, response));
            push_segments(&mut seed, 0, 0, request);
            seed.extend([&[0x01, 0, 0, 0][..], &[0x04, 1, 0, 0]].concat());
            // One kind of oddity with each API and version is plenty.
            if odd == 0 || i % 4 == usize::from(odd.trailing_zeros() as u8) % 4 {
                seeds.push(seed);
            }
        }
    }
    assert!(requests.iter().any(|request| {
        fuzz::frame::request_of(number(request, 8)).is_some_and(|api| api.0 == ApiKey::PRODUCE)
    }));
    seeds
}

/// A file compressed in every way that is read.
fn packed(file: &[u8]) -> [Vec<u8>; 3] {
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(file).expect("memory can be written to");
    let zstd = zstd::encode_all(file, 3).expect("memory can be written to");
    [super::records::gzip(file), zstd, lz4.finish().expect("memory can be written to")]
}

fn number(frame: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"))
}

/// A frame in segments, the first of them odd.
fn push_segments(seed: &mut Vec<u8>, from: u8, odd: u8, frame: &[u8]) {
    for (i, piece) in frame.chunks(120).enumerate() {
        let flags = if i == 0 { odd } else { 0 };
        seed.extend([flags, from, 20, piece.len() as u8]);
        seed.extend(piece);
    }
}

/// Where the records of a little-endian pcap file begin, and its end.
fn record_bounds(records: &[u8]) -> Vec<usize> {
    let mut bounds = vec![0];
    let mut at = 0;
    while let Some(len) = records.get(at + 8..at + 12) {
        at += 16 + u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        bounds.push(at);
    }
    bounds
}

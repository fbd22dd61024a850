//! An invented recording of a few hundred bytes: a thread that waited for a monitor and for a lock, a collection and
//! its safepoint, a call of a request handler and one of another method. Its content and order follow the format, but
//! it has only the types that it needs, where real recordings have hundreds.

const LONG: u64 = 11;
const TEXT: u64 = 20;
const CLASS: u64 = 21;
const THREAD: u64 = 22;
const SYMBOL: u64 = 30;
const METHOD: u64 = 31;
const STACK: u64 = 32;
const FRAME: u64 = 33;
const GC_NAME: u64 = 34;
const BOOLEAN: u64 = 40;
const MONITOR_ENTER: u64 = 100;
const PARK: u64 = 101;
const GC_PAUSE: u64 = 102;
const COLLECTION: u64 = 103;
const SAFEPOINT_BEGIN: u64 = 104;
const OPERATION: u64 = 105;
const SAFEPOINT_END: u64 = 106;
const METHOD_TRACE: u64 = 107;

/// How a value is encoded in its event.
#[derive(Clone, Copy, PartialEq)]
enum Is {
    Here,
    Pooled,
    Several,
}
use Is::{Here, Pooled, Several};

type Fields = &'static [(&'static str, u64, Is)];

const SPAN: Fields = &[("startTime", LONG, Here), ("duration", LONG, Here), ("safepointId", LONG, Here)];

const TYPES: &[(u64, &str, Fields)] = &[
    (LONG, "long", &[]),
    (BOOLEAN, "boolean", &[]),
    (TEXT, "java.lang.String", &[]),
    (CLASS, "java.lang.Class", &[("name", SYMBOL, Pooled)]),
    (
        THREAD,
        "java.lang.Thread",
        &[("osName", TEXT, Here), ("osThreadId", LONG, Here), ("javaName", TEXT, Here)],
    ),
    (SYMBOL, "jdk.types.Symbol", &[("string", TEXT, Here)]),
    (METHOD, "jdk.types.Method", &[("type", CLASS, Pooled), ("name", SYMBOL, Pooled)]),
    (STACK, "jdk.types.StackTrace", &[("truncated", BOOLEAN, Here), ("frames", FRAME, Several)]),
    (FRAME, "jdk.types.StackFrame", &[("method", METHOD, Pooled), ("lineNumber", LONG, Here)]),
    (GC_NAME, "jdk.types.GCName", &[("name", TEXT, Here)]),
    (
        MONITOR_ENTER,
        "jdk.JavaMonitorEnter",
        &[
            ("startTime", LONG, Here),
            ("duration", LONG, Here),
            ("eventThread", THREAD, Pooled),
            ("stackTrace", STACK, Pooled),
            ("monitorClass", CLASS, Pooled),
            ("previousOwner", THREAD, Pooled),
            ("address", LONG, Here),
        ],
    ),
    (
        PARK,
        "jdk.ThreadPark",
        &[
            ("startTime", LONG, Here),
            ("duration", LONG, Here),
            ("eventThread", THREAD, Pooled),
            ("stackTrace", STACK, Pooled),
            ("parkedClass", CLASS, Pooled),
            ("address", LONG, Here),
        ],
    ),
    (
        GC_PAUSE,
        "jdk.GCPhasePause",
        &[("startTime", LONG, Here), ("duration", LONG, Here), ("gcId", LONG, Here), ("name", TEXT, Here)],
    ),
    (
        COLLECTION,
        "jdk.GarbageCollection",
        &[
            ("startTime", LONG, Here),
            ("gcId", LONG, Here),
            ("name", GC_NAME, Pooled),
            ("cause", GC_NAME, Pooled),
        ],
    ),
    (SAFEPOINT_BEGIN, "jdk.SafepointBegin", SPAN),
    (
        OPERATION,
        "jdk.ExecuteVMOperation",
        &[
            ("startTime", LONG, Here),
            ("duration", LONG, Here),
            ("operation", GC_NAME, Pooled),
            ("safepoint", BOOLEAN, Here),
            ("safepointId", LONG, Here),
        ],
    ),
    (SAFEPOINT_END, "jdk.SafepointEnd", SPAN),
    (
        METHOD_TRACE,
        "jdk.MethodTrace",
        &[
            ("startTime", LONG, Here),
            ("duration", LONG, Here),
            ("eventThread", THREAD, Pooled),
            ("stackTrace", STACK, Pooled),
            ("method", METHOD, Pooled),
        ],
    ),
];

/// The ids of two types, as they are written.
#[allow(dead_code, reason = "the fuzz targets' seeds have other checks")]
pub(crate) const TEXT_POOL: [u8; 1] = [TEXT as u8];
#[allow(dead_code, reason = "the fuzz targets' seeds have other checks")]
pub(crate) const THREAD_POOL: [u8; 1] = [THREAD as u8];

/// The number of waits, pauses and calls of request handlers in [`recording`].
#[allow(dead_code, reason = "the fuzz targets' seeds have other checks")]
pub(crate) const EVENTS: usize = 5;

/// The whole recording, one chunk. Its description of types comes first.
pub(crate) fn recording() -> Vec<u8> {
    let mut bytes = b"FLR\0\0\x02\0\x01".to_vec();
    for word in [0, 0, 68, 1_700_000_000_000_000_000, 2_000_000, 5_000, 1_000_000_000u64] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(metadata());
    bytes.extend(checkpoint());
    for (kind, values) in [
        (MONITOR_ENTER, &[6_000, 900, 1, 1, 1, 2, 0xbeef][..]),
        (PARK, &[7_000, 800, 2, 1, 2, 0xcafe]),
        (COLLECTION, &[8_100, 3, 1, 2]),
        (SAFEPOINT_BEGIN, &[8_000, 40, 12]),
        (OPERATION, &[8_050, 900, 3, 1, 12]),
        (SAFEPOINT_END, &[9_000, 10, 12]),
        (METHOD_TRACE, &[5_900, 3_000, 1, 0, 3]),
        (METHOD_TRACE, &[5_900, 3_000, 1, 0, 1]),
    ] {
        bytes.extend(event(kind, &values.iter().copied().flat_map(varint).collect::<Vec<_>>()));
    }
    let pause: Vec<_> = [8_100, 700, 3].into_iter().flat_map(varint).chain(text("GC Pause")).collect();
    bytes.extend(event(GC_PAUSE, &pause));
    set_size(&mut bytes);
    bytes
}

/// Sets the chunk's size in the header to its length.
pub(crate) fn set_size(bytes: &mut [u8]) {
    let size = (bytes.len() as u64).to_be_bytes();
    bytes[8..16].copy_from_slice(&size);
}

fn checkpoint() -> Vec<u8> {
    let mut body: Vec<_> = [5_500, 0, 0].into_iter().flat_map(varint).collect();
    body.push(1);
    let thread = |tid: u64, name: &str| [text("cut"), varint(tid), text(name)].concat();
    let latin1 = |name: &str| [&[5, name.len() as u8], name.as_bytes()].concat();
    let frames = [&[0, 2][..], &[1, 9], &[2, 9]].concat();
    let pools = [
        (THREAD, vec![thread(41, "data-plane-kafka-request-handler-0"), thread(42, "kafka-scheduler-1")]),
        (CLASS, vec![varint(1), varint(2), varint(5)]),
        (
            SYMBOL,
            vec![
                text("java/lang/Object"),
                text("java/util/concurrent/locks/ReentrantLock$NonfairSync"),
                latin1("append"),
                // UTF-16 units.
                [4, 3, b'r', b'u', b'n'].to_vec(),
                text("kafka/server/KafkaApis"),
                text("handle"),
            ],
        ),
        (METHOD, vec![[1, 3].to_vec(), [1, 4].to_vec(), [3, 6].to_vec()]),
        (STACK, vec![frames]),
        (GC_NAME, vec![text("G1New"), text("G1 Evacuation Pause"), text("G1CollectForAllocation")]),
    ];
    body.extend(varint(pools.len() as u64));
    for (type_id, values) in pools {
        body.extend([varint(type_id), varint(values.len() as u64)].concat());
        for (key, value) in (1..).zip(values) {
            body.extend([varint(key), value].concat());
        }
    }
    event(1, &body)
}

fn metadata() -> Vec<u8> {
    let mut strings = Strings(Vec::new());
    let mut classes = Vec::new();
    for (id, name, fields) in TYPES {
        let attributes = [("id", id.to_string()), ("name", (*name).to_owned())];
        let fields: Vec<_> = fields.iter().map(|field| strings.field(field)).collect();
        classes.push(strings.element("class", &attributes, &fields));
    }
    let metadata = strings.element("metadata", &[], &classes);
    let root = strings.element("root", &[], &[metadata]);
    let mut body: Vec<_> = [5_000, 0, 1, strings.0.len() as u64].into_iter().flat_map(varint).collect();
    strings.0.iter().for_each(|string| body.extend(text(string)));
    event(0, &[body, root].concat())
}

/// The table of strings of a description.
struct Strings(Vec<String>);

impl Strings {
    fn index(&mut self, string: &str) -> Vec<u8> {
        let index = self.0.iter().position(|one| one == string).unwrap_or_else(|| {
            self.0.push(string.to_owned());
            self.0.len() - 1
        });
        varint(index as u64)
    }

    fn element(&mut self, name: &str, attributes: &[(&str, String)], children: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.index(name);
        bytes.extend(varint(attributes.len() as u64));
        for (key, value) in attributes {
            bytes.extend([self.index(key), self.index(value)].concat());
        }
        bytes.extend(varint(children.len() as u64));
        [bytes, children.concat()].concat()
    }

    fn field(&mut self, (name, type_id, is): &(&str, u64, Is)) -> Vec<u8> {
        let mut attributes = vec![("name", (*name).to_owned()), ("class", type_id.to_string())];
        if *is == Pooled {
            attributes.push(("constantPool", "true".to_owned()));
        }
        if *is == Several {
            attributes.push(("dimension", "1".to_owned()));
        }
        self.element("field", &attributes, &[])
    }
}

/// Encodes an event; its size always takes four bytes.
pub(crate) fn event(type_id: u64, body: &[u8]) -> Vec<u8> {
    let kind = varint(type_id);
    let size = 4 + kind.len() + body.len();
    let sized = [0, 7, 14].map(|shift| (size >> shift) as u8 | 0x80);
    [&sized[..], &[(size >> 21) as u8], &kind, body].concat()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&[3], &varint(text.len() as u64)[..], text.as_bytes()].concat()
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

//! Pieces of real thread dumps and collectors' logs. Also of the javacore in the tests of `jvm`. Does not read them.

const TEXTS: [&[u8]; 5] = [
    include_bytes!("../../../crates/jvm/tests/dumps/hotspot-17-sigquit.txt"),
    include_bytes!("../../../crates/jvm/tests/dumps/hotspot-25-jcmd-jstack.txt"),
    include_bytes!("../../../crates/jvm/tests/dumps/openj9-log-append.txt"),
    include_bytes!("../../../crates/jvm/tests/gc_logs/kafka-25-g1-safepoint.log"),
    include_bytes!("../../../crates/jvm/tests/gc_logs/17-serial-uptime.log"),
];

/// Inputs of the target `dump`: lines of each text, about half a kilobyte together, of every third place in it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for (number, text) in TEXTS.iter().enumerate() {
        let mut piece = vec![number as u8];
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            piece.extend_from_slice(line);
            if piece.len() > 500 {
                pieces.push(std::mem::replace(&mut piece, vec![0]));
            }
        }
    }
    pieces.into_iter().step_by(3).collect()
}

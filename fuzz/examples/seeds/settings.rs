//! Settings of a broker, and answers to a client that authenticates itself. The settings are files of properties, an
//! answer to `DescribeConfigs`, a refusal of one, and a command line. Does not read them.

const FILES: [&str; 4] = [
    "# a broker\nnode.id=1\nprocess.roles = broker,controller\nlog.dirs:/var/a,\\\n    /var/b\nlisteners PLAINTEXT://:9092\n",
    "! \\\r\na\\=b\\ c=\\t\\n\\r\\f\\x\\\\\n",
    "a=\\u00e9\\u20AC\\ud83d\\ude00\\ud83d\\u12\r=\r\nb\n",
    "a=b\\\\\\\n\nc=d\\",
];

/// Version 1: no time throttled, one resource, an error with a reason, of broker 1, without settings.
const REFUSAL: &[u8] = b"\0\0\0\0\0\0\0\x01\0\x1f\0\x0bnot allowed\x04\0\x011\0\0\0\0";
const COMMAND_LINE: &[u8] =
    b"/usr/bin/java\0-Xmx1g\0kafka.Kafka\0config/server.properties\0--override\0node.id=1\0--override=a = b\0";

/// Inputs of the target `settings`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let files = FILES.iter().map(|file| [&[0], file.as_bytes()].concat());
    files
        .chain([[&[1], &answer()[..]].concat(), [&[1], REFUSAL].concat(), [&[2], COMMAND_LINE].concat()])
        .chain(authentications())
        .collect()
}

/// Answers by SCRAM, by PLAIN, and of a broker that has other mechanisms. SCRAM ends with a wrong signature, and with
/// an error.
fn authentications() -> [Vec<u8>; 4] {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let mechanisms = |code: u8| [vec![0, code, 0, 0, 0, 1], text("PLAIN")].concat();
    let token = |token: &str| [vec![0, 0, 0xff, 0xff, 0, 0], text(token)].concat();
    let refusal = [vec![0, 58], text("no"), vec![0; 4]].concat();
    let answers = |mechanism: u8, answers: &[Vec<u8>]| {
        let each =
            answers.iter().flat_map(|answer| [&(answer.len() as u16).to_be_bytes()[..], answer].concat());
        [3, mechanism].into_iter().chain(each).collect()
    };
    let first = token("r=ownx,s=AA==,i=4096");
    [
        answers(0, &[mechanisms(0), first.clone(), token("v=AAAA")]),
        answers(0, &[mechanisms(0), first, token("e=invalid-proof")]),
        answers(1, &[mechanisms(0), refusal]),
        answers(0, &[mechanisms(33)]),
    ]
}

/// Version 1: a static setting, a secret, a default with a synonym.
fn answer() -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let synonym = [text("log.retention.ms"), text("1"), vec![4]].concat();
    [
        vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 4],
        [text("1"), vec![0, 0, 0, 3]].concat(),
        [text("num.io.threads"), text("8"), vec![0, 4, 0, 0, 0, 0, 0]].concat(),
        [text("ssl.key.password"), vec![0xff, 0xff, 0, 4, 1, 0, 0, 0, 0]].concat(),
        [text("log.retention.hours"), text("168"), vec![0, 5, 0, 0, 0, 0, 1], synonym].concat(),
    ]
    .concat()
}

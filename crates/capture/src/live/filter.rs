//! The filter that the kernel runs on every packet.
//! A classic BPF program that accepts TCP of some ports. Packets begin at their IP header. Does not attach anything.

use libc::sock_filter as Instruction;

/// Load a word, half word or byte at `k`; a half word at X + `k`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_INDEXED: u16 = 0x48;
/// X = 4 × (the byte at `k` & 15): the length of an IPv4 header.
const LOAD_X_HEADER_LEN: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Packet metadata besides its bytes (`SKF_AD_OFF` and on).
const PACKET_PROTOCOL: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = 0xffff_f004;
const DEVICE_TYPE: u32 = 0xffff_f01c;
const DEVICE_LOOPBACK: u32 = 772;
const PACKET_OUTGOING: u32 = 4;

const PROTOCOL_IPV4: u32 = 0x0800;
const PROTOCOL_IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
/// Extension headers that may precede TCP: the rest of such packets is examined in user space.
const IPV6_EXTENSIONS: [u32; 6] = [0, 43, 44, 51, 60, 135];

/// Accepts `snaplen` bytes of packets with one of `ports` at either end. Accepts all TCP if `ports` is empty. Rejects a
/// loopback interface's outgoing copies, and later fragments, which have no ports.
pub(super) fn program(ports: &[u16], snaplen: u32) -> Vec<Instruction> {
    let v4 = version_4(ports, snaplen);
    let v6 = version_6(ports, snaplen);
    let mut program = vec![
        load(LOAD_WORD, DEVICE_TYPE),
        branch(JUMP_IF_EQUAL, DEVICE_LOOPBACK, 0, 3),
        load(LOAD_WORD, PACKET_TYPE),
        branch(JUMP_IF_EQUAL, PACKET_OUTGOING, 0, 1),
        return_bytes(0),
        load(LOAD_WORD, PACKET_PROTOCOL),
        branch(JUMP_IF_EQUAL, PROTOCOL_IPV4, 1, 0),
        // Only an unconditional jump reaches further than 255 instructions.
        load(JUMP, v4.len() as u32),
    ];
    program.extend(v4);
    program.extend([branch(JUMP_IF_EQUAL, PROTOCOL_IPV6, 1, 0), return_bytes(0)]);
    program.extend(v6);
    program
}

fn version_4(ports: &[u16], snaplen: u32) -> Vec<Instruction> {
    let mut program = vec![
        load(LOAD_BYTE, 9),
        branch(JUMP_IF_EQUAL, TCP, 1, 0),
        return_bytes(0),
        load(LOAD_HALF, 6),
        branch(JUMP_IF_SET, 0x1fff, 0, 1),
        return_bytes(0),
        load(LOAD_X_HEADER_LEN, 0),
        load(LOAD_HALF_INDEXED, 0),
    ];
    program.extend(return_if_any(ports, snaplen));
    program.push(load(LOAD_HALF_INDEXED, 2));
    program.extend(return_if_any(ports, snaplen));
    program.push(return_bytes(0));
    program
}

fn version_6(ports: &[u16], snaplen: u32) -> Vec<Instruction> {
    let mut program = vec![load(LOAD_BYTE, 6)];
    for extension in IPV6_EXTENSIONS {
        program.extend([branch(JUMP_IF_EQUAL, extension, 0, 1), return_bytes(snaplen)]);
    }
    program.extend([branch(JUMP_IF_EQUAL, TCP, 1, 0), return_bytes(0), load(LOAD_HALF, 40)]);
    program.extend(return_if_any(ports, snaplen));
    program.push(load(LOAD_HALF, 42));
    program.extend(return_if_any(ports, snaplen));
    program.push(return_bytes(0));
    program
}

/// Returns `snaplen` if the loaded half word is one of `ports`. Also returns it if `ports` is empty.
fn return_if_any(ports: &[u16], snaplen: u32) -> Vec<Instruction> {
    if ports.is_empty() {
        return vec![return_bytes(snaplen)];
    }
    ports
        .iter()
        .flat_map(|&port| [branch(JUMP_IF_EQUAL, u32::from(port), 0, 1), return_bytes(snaplen)])
        .collect()
}

fn load(code: u16, k: u32) -> Instruction {
    branch(code, k, 0, 0)
}

fn branch(code: u16, k: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, jt: if_true, jf: if_false, k }
}

fn return_bytes(bytes: u32) -> Instruction {
    load(RETURN, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TestSegment;

    struct TestPacket<'a> {
        bytes: &'a [u8],
        protocol: u32,
        packet_type: u32,
        device_type: u32,
    }

    /// Interprets these instructions as the kernel does; a load past the end drops the packet.
    fn run(program: &[Instruction], seen: &TestPacket<'_>) -> u32 {
        let (mut at, mut a, mut x) = (0, 0u32, 0usize);
        loop {
            let Instruction { code, jt: if_true, jf: if_false, k } = program[at];
            at += 1;
            let number = |from: usize, len: usize| -> Option<u32> {
                Some(seen.bytes.get(from..from + len)?.iter().fold(0, |n, &b| (n << 8) | u32::from(b)))
            };
            let loaded = match code {
                LOAD_WORD => Some(match k {
                    PACKET_PROTOCOL => seen.protocol,
                    PACKET_TYPE => seen.packet_type,
                    DEVICE_TYPE => seen.device_type,
                    _ => panic!("no such ancillary word"),
                }),
                LOAD_HALF => number(k as usize, 2),
                LOAD_BYTE => number(k as usize, 1),
                LOAD_HALF_INDEXED => number(x + k as usize, 2),
                LOAD_X_HEADER_LEN => {
                    let Some(byte) = number(k as usize, 1) else { return 0 };
                    x = 4 * (byte as usize & 15);
                    continue;
                }
                JUMP => {
                    at += k as usize;
                    continue;
                }
                JUMP_IF_EQUAL => {
                    at += usize::from(if a == k { if_true } else { if_false });
                    continue;
                }
                JUMP_IF_SET => {
                    at += usize::from(if a & k != 0 { if_true } else { if_false });
                    continue;
                }
                RETURN => return k,
                _ => panic!("no such instruction"),
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
        }
    }

    fn passes(ports: &[u16], packet: &[u8], is_v4: bool) -> bool {
        let protocol = if is_v4 { PROTOCOL_IPV4 } else { PROTOCOL_IPV6 };
        let seen = TestPacket { bytes: packet, protocol, packet_type: 0, device_type: 1 };
        let captured = run(&program(ports, 1234), &seen);
        assert!(captured == 0 || captured == 1234);
        captured != 0
    }

    #[test]
    fn accepts_tcp_ports_at_either_end_in_ipv4_and_ipv6() {
        let many: Vec<u16> = (9000..9300).collect();
        for (src, dst) in [("10.0.0.7:41234", "10.0.0.1:9092"), ("[fd00::7]:41234", "[fd00::1]:9092")] {
            let forward = TestSegment::new(src, dst);
            let back = TestSegment::new(dst, src);
            for segment in [forward, back] {
                let (ip, is_v4) = (segment.ip(), segment.src.is_ipv4());
                for (ports, expected) in
                    [(&[9092][..], true), (&[1, 9092], true), (&[9093], false), (&[], true), (&many, true)]
                {
                    assert_eq!(passes(ports, &ip, is_v4), expected, "{segment:?} {ports:?}");
                }
            }
        }
    }

    #[test]
    fn finds_ports_after_ipv4_options() {
        let mut ip = TestSegment::new("10.0.0.7:41234", "10.0.0.1:9092").ip();
        ip[0] = 0x46;
        assert!(!passes(&[9092], &ip, true));
        ip.splice(20..20, [1, 1, 1, 1]);
        assert!(passes(&[9092], &ip, true));
    }

    #[test]
    fn rejects_udp_later_fragments_and_other_protocols() {
        let whole = TestSegment::new("10.0.0.7:41234", "10.0.0.1:9092").ip();
        let mut udp = whole.clone();
        udp[9] = 17;
        let mut fragment = whole.clone();
        fragment[7] = 1;
        assert!(!passes(&[9092], &udp, true));
        assert!(!passes(&[9092], &fragment, true));
        assert!(!passes(&[9092], &whole[..10], true));
        let arp = TestPacket { bytes: &whole, protocol: 0x0806, packet_type: 0, device_type: 1 };
        assert_eq!(run(&program(&[9092], 1), &arp), 0);
    }

    #[test]
    fn accepts_ipv6_packets_with_extension_headers() {
        let mut ip = TestSegment::new("[fd00::7]:1", "[fd00::1]:2").ip();
        assert!(!passes(&[9092], &ip, false));
        ip[6] = 60;
        assert!(passes(&[9092], &ip, false));
        ip[6] = 17;
        assert!(!passes(&[9092], &ip, false));
    }

    #[test]
    fn drops_outgoing_packets_only_on_loopback() {
        let bytes = TestSegment::new("127.0.0.1:41234", "127.0.0.1:9092").ip();
        for (device_type, packet_type, expected) in [
            (DEVICE_LOOPBACK, 0, 9),
            (DEVICE_LOOPBACK, PACKET_OUTGOING, 0),
            (1, PACKET_OUTGOING, 9),
            (1, 0, 9),
        ] {
            let seen = TestPacket { bytes: &bytes, protocol: PROTOCOL_IPV4, packet_type, device_type };
            assert_eq!(run(&program(&[9092], 9), &seen), expected);
        }
    }
}

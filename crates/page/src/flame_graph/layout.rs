//! The position of each frame of a flame graph: which frames touch, how wide and how high they are. In nanoseconds
//! and rows; does not know pixels.

use super::fold::Total;

/// Frames kept per panel: a browser draws about ten thousand without delay.
const MAX_FRAMES: usize = 12_000;
/// Frames narrower than one 5,000th of their panel are always left out. That is about a fifth of a pixel.
const FINEST: i64 = 5_000;

/// A frame: the time of all stacks that share a prefix of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) name: &'a str,
    /// Depth, 0 for the outermost.
    pub(super) depth: usize,
    /// The time to its left.
    pub(super) start_ns: i64,
    pub(super) total: Total,
}

/// The frames of a panel from left to right, each after the one it stands on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout<'a> {
    pub(super) frames: Vec<Frame<'a>>,
    pub(super) total: Total,
    pub(super) rows: usize,
    /// Frames left out because they are too narrow.
    pub(super) left_out: usize,
}

/// Lays out stacks under a root frame.
/// Sorts them, because frames with a common prefix touch only if their stacks are neighbours.
pub(super) fn lay_out<'a>(root: &'a str, stacks: impl Iterator<Item = (&'a str, Total)>) -> Layout<'a> {
    let mut stacks: Vec<(Vec<&str>, Total)> =
        stacks.map(|(stack, total)| (stack.split(';').collect(), total)).collect();
    stacks.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut open: Vec<Frame<'a>> = vec![Frame { name: root, depth: 0, start_ns: 0, total: Total::default() }];
    let mut done = Vec::new();
    let mut all = Total::default();
    for (stack, total) in stacks {
        let shared = open.iter().skip(1).zip(&stack).take_while(|(frame, name)| frame.name == **name).count();
        done.extend(open.drain(shared + 1..));
        for (above, name) in stack.iter().enumerate().skip(shared) {
            open.push(Frame { name, depth: above + 1, start_ns: all.time.0, total: Total::default() });
        }
        for frame in &mut open {
            frame.total.add(total);
        }
        all.add(total);
    }
    done.append(&mut open);
    thin_out(done, all)
}

/// Leaves out the narrowest frames.
/// Frames that stand on a frame are never wider, so none loses its base.
fn thin_out(mut frames: Vec<Frame<'_>>, total: Total) -> Layout<'_> {
    let all = frames.len();
    let mut widths: Vec<i64> = frames.iter().map(|frame| frame.total.time.0).collect();
    widths.sort_unstable_by(|one, other| other.cmp(one));
    let crowd = widths.get(MAX_FRAMES).map_or(0, |width| width + 1);
    let narrowest = crowd.max(total.time.0 / FINEST);
    frames.retain(|frame| frame.depth == 0 || frame.total.time.0 >= narrowest);
    frames.sort_by_key(|frame| (frame.start_ns, frame.depth));
    let rows = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    Layout { total, rows, left_out: all - frames.len(), frames }
}

#[cfg(test)]
mod tests {
    use super::{MAX_FRAMES, Total, lay_out};
    use model::Nanos;

    fn total(ns: i64) -> Total {
        Total { time: Nanos(ns), count: 1 }
    }

    fn frames_of(stacks: &[(&str, i64)]) -> Vec<(String, usize, i64, i64)> {
        let layout = lay_out("all", stacks.iter().map(|&(stack, ns)| (stack, total(ns))));
        let frames = layout.frames.iter();
        frames.map(|frame| (frame.name.to_owned(), frame.depth, frame.start_ns, frame.total.time.0)).collect()
    }

    #[test]
    fn common_stack_prefixes_share_frames() {
        let frames = frames_of(&[("t;a;b", 5), ("t;a", 2), ("t;c", 3), ("u;a", 1)]);
        let expected = [
            ("all", 0, 0, 11),
            ("t", 1, 0, 10),
            ("a", 2, 0, 7),
            ("b", 3, 2, 5),
            ("c", 2, 7, 3),
            ("u", 1, 10, 1),
            ("a", 2, 10, 1),
        ];
        assert_eq!(frames, expected.map(|(name, depth, start, ns)| (name.to_owned(), depth, start, ns)));
    }

    #[test]
    fn name_sorting_before_the_separator_does_not_split_frames() {
        // As text, "a b" sorts between "a" and "a;x".
        let frames = frames_of(&[("a", 1), ("a b", 2), ("a;x", 4)]);
        assert_eq!(frames.iter().filter(|(name, ..)| name == "a").count(), 1, "{frames:?}");
    }

    #[test]
    fn panel_has_a_bounded_number_of_frames() {
        let names: Vec<String> = (0..3 * MAX_FRAMES).map(|i| format!("t;{i}")).collect();
        let layout =
            lay_out("all", names.iter().enumerate().map(|(i, name)| (name.as_str(), total(i as i64))));
        assert!(layout.frames.len() <= MAX_FRAMES + 1);
        assert_eq!(layout.frames.len() + layout.left_out, 3 * MAX_FRAMES + 2);
        assert_eq!(layout.total.count, 3 * MAX_FRAMES as u64);
    }

    #[test]
    fn empty_panel_has_a_root_frame() {
        let layout = lay_out("all", std::iter::empty());
        assert_eq!((layout.frames.len(), layout.rows, layout.left_out), (1, 1, 0));
    }
}

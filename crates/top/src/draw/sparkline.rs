//! Numbers over time as a line of blocks. Draws nothing.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One block for each number, the highest full; a blank where there is none. Numbers above zero are never blank.
pub(super) fn sparkline(values: &[Option<f64>]) -> String {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    values.iter().map(|value| value.map_or(' ', |value| block(value, highest))).collect()
}

fn block(value: f64, highest: f64) -> char {
    let share = if highest > 0.0 { value / highest } else { 0.0 };
    let step = (share * BLOCKS.len() as f64).ceil() as usize;
    BLOCKS.get(step.saturating_sub(1)).copied().unwrap_or('█')
}

#[cfg(test)]
mod tests {
    use super::sparkline;

    #[test]
    fn the_highest_is_full_and_nothing_is_blank() {
        let some = |values: &[f64]| values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        assert_eq!(sparkline(&some(&[0.0, 1.0, 4.0, 8.0])), "▁▁▄█");
        assert_eq!(sparkline(&some(&[0.0, 0.0])), "▁▁");
        assert_eq!(sparkline(&[None, Some(3.0)]), " █");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&some(&[f64::NAN, 1.0])).chars().count(), 2);
    }
}

//! lz4 frames one after the other. Adds to the library's decoder of one frame what a file needs: the next
//! frame, and telling a cut stream from one that has ended.

use std::io::{self, BufReader, Read};

use lz4_flex::frame::FrameDecoder;

/// Reads frames to the end of what holds them.
pub(super) struct Lz4Frames {
    /// None only while it is replaced.
    frame: Option<FrameDecoder<Watched>>,
    /// Nothing was read since a frame ended.
    between_frames: bool,
}

/// Remembers whether its end was met.
struct Watched {
    packed: BufReader<Box<dyn Read + Send>>,
    ended: bool,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.packed.read(into)?;
        self.ended |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

impl Lz4Frames {
    pub(super) fn new(packed: Box<dyn Read + Send>) -> Self {
        let watched = Watched { packed: BufReader::new(packed), ended: false };
        Self { frame: Some(FrameDecoder::new(watched)), between_frames: false }
    }

    /// Goes on to the next frame, with a decoder of its own: the library's asserts that all frames it meets
    /// have blocks of one size.
    fn next_frame(&mut self) {
        self.frame = self.frame.take().map(|frame| FrameDecoder::new(frame.into_inner()));
        self.between_frames = true;
    }
}

impl Read for Lz4Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = self.frame.as_mut() {
            let read = frame.read(into)?;
            if read > 0 || into.is_empty() {
                self.between_frames = false;
                return Ok(read);
            }
            // The decoder says "nothing more" at a frame's end mark, and also where the stream ends.
            match (frame.get_ref().ended, self.between_frames) {
                (false, _) => self.next_frame(),
                (true, true) => return Ok(0),
                (true, false) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(0)
    }
}

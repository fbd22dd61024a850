//! What `verdicts/` says beside the request itself: cause, stages, evidence.

use model::{Evidence, KafkaTimes, Stage, StageSpan, Stages, Verdict};

use crate::columns::{I64, Maybe, Rows, Text, U32, Words, columns};

columns! {
    Conclusions, ConclusionCells {
        cause: Text,
        chain: Words,
        root: Text,
        confidence: Text,
        partition: Maybe<Text>,
        stage_network_in_ns: I64,
        stage_head_of_line_ns: I64,
        stage_receive_ns: I64,
        stage_queue_ns: I64,
        stage_handler_ns: I64,
        stage_lock_ns: I64,
        stage_append_ns: I64,
        stage_remote_ns: I64,
        stage_respond_ns: I64,
        stage_network_out_ns: I64,
        stage_unobserved_ns: I64,
        course: Rows<Spans>,
        evidence: Rows<EvidenceRows>,
        advice: Words,
        losses: Words,
        why_not: Rows<Doubts>,
        kafka_queue_ns: Maybe<I64>,
        kafka_local_ns: Maybe<I64>,
        kafka_remote_ns: Maybe<I64>,
        kafka_throttle_ns: Maybe<I64>,
        kafka_response_queue_ns: Maybe<I64>,
        kafka_send_ns: Maybe<I64>,
        kafka_total_ns: Maybe<I64>,
    }
}

columns! {
    Spans, SpanCells {
        stage: Text,
        start_ns: I64,
        end_ns: I64,
    }
}

columns! {
    EvidenceRows, EvidenceCells {
        kind: Text,
        start_ns: I64,
        end_ns: I64,
        tid: Maybe<U32>,
        thread: Maybe<Text>,
        text: Text,
        waiter_tid: Maybe<U32>,
        waiter: Maybe<Text>,
    }
}

columns! {
    Doubts, DoubtCells {
        stage: Text,
        time_ns: I64,
        what: Text,
        tells: Text,
    }
}

impl Conclusions {
    /// Appends a row.
    pub(crate) fn append(&mut self, verdict: &Verdict) {
        self.cause.append_value(verdict.cause.as_str());
        words(&mut self.chain, verdict.chain.iter().map(|cause| cause.as_str()));
        self.root.append_value(&verdict.root);
        self.confidence.append_value(verdict.confidence.as_str());
        self.partition.append_option(verdict.partition.as_ref().map(ToString::to_string));
        self.stages(&verdict.stages);
        verdict.stage_spans.iter().for_each(|span| self.course.rows.append(span));
        self.course.end_list(verdict.stage_spans.len());
        verdict.evidence.iter().for_each(|evidence| self.evidence.rows.append(evidence));
        self.evidence.end_list(verdict.evidence.len());
        words(&mut self.advice, verdict.advice.iter().copied());
        words(&mut self.losses, verdict.losses.iter().map(AsRef::as_ref));
        for doubt in &verdict.doubts {
            self.why_not.rows.append(doubt);
        }
        self.why_not.end_list(verdict.doubts.len());
        self.kafka(verdict.kafka.as_ref());
    }

    fn stages(&mut self, stages: &Stages) {
        for (stage, length) in stages.iter() {
            let column = match stage {
                Stage::NetworkIn => &mut self.stage_network_in_ns,
                Stage::HeadOfLine => &mut self.stage_head_of_line_ns,
                Stage::Receive => &mut self.stage_receive_ns,
                Stage::Queue => &mut self.stage_queue_ns,
                Stage::Handler => &mut self.stage_handler_ns,
                Stage::Lock => &mut self.stage_lock_ns,
                Stage::Append => &mut self.stage_append_ns,
                Stage::Remote => &mut self.stage_remote_ns,
                Stage::Respond => &mut self.stage_respond_ns,
                Stage::NetworkOut => &mut self.stage_network_out_ns,
                Stage::Unobserved => &mut self.stage_unobserved_ns,
            };
            column.append_value(length.0);
        }
    }

    fn kafka(&mut self, times: Option<&KafkaTimes>) {
        self.kafka_queue_ns.append_option(times.map(|times| times.queue.0));
        self.kafka_local_ns.append_option(times.map(|times| times.local.0));
        self.kafka_remote_ns.append_option(times.map(|times| times.remote.0));
        self.kafka_throttle_ns.append_option(times.map(|times| times.throttle.0));
        self.kafka_response_queue_ns.append_option(times.map(|times| times.response_queue.0));
        self.kafka_send_ns.append_option(times.map(|times| times.send.0));
        self.kafka_total_ns.append_option(times.map(|times| times.total.0));
    }
}

fn words<'a>(list: &mut <Words as crate::columns::Kind>::Builder, words: impl Iterator<Item = &'a str>) {
    words.for_each(|word| list.values().append_value(word));
    list.append(true);
}

impl Spans {
    fn append(&mut self, span: &StageSpan) {
        self.stage.append_value(span.stage.as_str());
        self.start_ns.append_value(span.start.0);
        self.end_ns.append_value(span.end.0);
    }
}

impl EvidenceRows {
    fn append(&mut self, evidence: &Evidence) {
        self.kind.append_value(evidence.kind.as_str());
        self.start_ns.append_value(evidence.start.0);
        self.end_ns.append_value(evidence.end.0);
        self.tid.append_option(evidence.tid);
        self.thread.append_option(evidence.thread.as_deref());
        self.text.append_value(&evidence.text);
        self.waiter_tid.append_option(evidence.waiter.as_ref().map(|waiter| waiter.tid));
        self.waiter.append_option(evidence.waiter.as_ref().map(|waiter| &waiter.thread));
    }
}

impl Doubts {
    fn append(&mut self, doubt: &model::Doubt) {
        self.stage.append_value(doubt.stage.as_str());
        self.time_ns.append_value(doubt.time.0);
        self.what.append_value(&doubt.what);
        self.tells.append_value(&doubt.tells);
    }
}

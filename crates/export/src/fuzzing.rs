//! What the fuzz target `http` reaches of this crate: requests of anybody, and answers of a collector. Nothing else uses it.
//! Fuzzed by: http.

use crate::otlp::post;
use crate::server;

/// Method, path and `Accept` of a request, once its head is complete; `Err` where it is none.
pub fn request(bytes: &[u8]) -> Result<Option<[String; 3]>, String> {
    let request = server::parse(bytes).map_err(|error| error.to_string())?;
    Ok(request.map(|request| [request.method, request.path, request.accept]))
}

/// Whether no more of a collector's answer has to be waited for, and what it means; none where it is no answer.
pub fn collector_answer(bytes: &[u8]) -> (bool, Option<String>) {
    (post::is_whole(bytes), post::understand(bytes).ok().map(|answer| format!("{answer:?}")))
}

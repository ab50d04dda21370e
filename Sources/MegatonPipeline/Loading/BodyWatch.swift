internal import Foundation

/// What somebody wants to know of a body while it comes. Called on the loader's thread, one call at a time.
struct BodyWatch: Sendable {
    /// Bytes so far, and of how many (0 where that is not known).
    var onProgress: @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in }
    /// Whether `onPart` is to be told of what has just come. Asked within a lock: it only looks.
    var wantsPart: @Sendable () -> Bool = { false }
    /// What has come of an unfinished body. To hold on to it costs a copy of all bytes with the next chunk.
    var onPart: @Sendable (ResumableDownload) -> Void = { _ in }
    /// What the load has cost, before its end, where the loader tells.
    var onTimings: @Sendable (LoadTimings) -> Void = { _ in }
}

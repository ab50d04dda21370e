internal import Foundation

/// Observer of a body while it arrives. Called on the loader's thread, one call at a time.
package struct DownloadObserver: Sendable {
    /// Receives the bytes so far and in total (0 if unknown).
    package var onProgress: @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in }
    /// Whether to call `onPart` after this chunk. Called with a lock held, so it must only read state.
    package var wantsPart: @Sendable () -> Bool = { false }
    /// Receives the unfinished body. Keeping it costs a copy of all bytes with the next chunk.
    package var onPart: @Sendable (ResumableDownload) -> Void = { _ in }
    /// Receives the timings before the load ends, if the loader reports them.
    package var onTimings: @Sendable (LoadTimings) -> Void = { _ in }

    package init(
        onProgress: @escaping @Sendable (_ completed: Int64, _ total: Int64) -> Void = { _, _ in },
        wantsPart: @escaping @Sendable () -> Bool = { false },
        onPart: @escaping @Sendable (ResumableDownload) -> Void = { _ in },
        onTimings: @escaping @Sendable (LoadTimings) -> Void = { _ in }
    ) {
        self.onProgress = onProgress
        self.wantsPart = wantsPart
        self.onPart = onPart
        self.onTimings = onTimings
    }
}

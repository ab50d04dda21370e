public import Foundation

extension DataLoader {
    /// Watches the loads of a loader: for logs and metrics.
    ///
    /// Called on the loader's own thread, which must not wait: hand over what takes time.
    public protocol Delegate: Sendable {
        /// A load has ended; before its completion is called. Also told of loads that were cancelled (`.cancelled`).
        ///
        /// - Parameters:
        ///   - url: what was asked for. It may carry a signature; `timings.effectiveURL` has none.
        ///   - error: nil where the load succeeded.
        func loadDidEnd(_ url: URL, timings: LoadTimings, error: (any Error)?)
    }
}

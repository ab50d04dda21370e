public import Foundation

extension DataLoader {
    /// Observes the loads of a loader, for logs and metrics.
    ///
    /// Called on the loader's own thread, which must not block: hand over work that takes time.
    public protocol Delegate: Sendable {
        /// Called when a load has ended, before its completion; also for cancelled loads (`.cancelled`).
        ///
        /// - Parameters:
        ///   - url: the requested URL. It may carry a signature; `timings.effectiveURL` has none.
        ///   - error: nil if the load succeeded.
        func loadDidEnd(_ url: URL, timings: LoadTimings, error: (any Error)?)
    }
}

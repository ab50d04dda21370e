import Foundation
import Logging
import MegatonPipeline

/// Logs each load with its duration.
struct LoadLogger: DataLoader.Delegate {
    let logger: Logger

    func loadDidEnd(_ url: URL, timings: LoadTimings, error: (any Error)?) {
        logger.info(
            "loaded \(timings.effectiveURL ?? "")",
            metadata: ["seconds": "\(timings.total)", "bytes": "\(timings.bytes)", "failed": "\(error != nil)"]
        )
    }
}

import Foundation

/// Results of `megaton-bench pipeline`.
struct PipelineReport: Encodable, Sendable {
    /// One stage of the work, or all of it.
    struct Stage: Encodable, Sendable {
        var stage: String
        /// Rate of all threads together; for a stage, as if they did nothing else.
        var imagesPerSecond: Double
        var latency: Percentiles
    }

    var images: Int
    /// Size of all sources.
    var bytes: Int
    /// Pixels within which the renditions fit.
    var side: Int
    var threads: Int
    /// Engine of the stages: libvips if one of the formats cannot be encoded from planes.
    var stagesEngine: String
    var stages: [Stage]
    /// The bare loop, by format.
    var all: [Stage]

    var text: String {
        let head =
            "\(images) images of \(bytes / max(1, images) / 1024) KiB, to \(side)x\(side), \(threads) threads; "
            + "stages with the engine \(stagesEngine)"
        let rows = (stages + all).map { stage in
            stage.stage.padding(toLength: 14, withPad: " ", startingAt: 0)
                + String(format: "%10.1f", stage.imagesPerSecond) + stage.latency.columns
        }
        return ([head, "stage           images/s" + Percentiles.heads] + rows).joined(separator: "\n")
    }
}

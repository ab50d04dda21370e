import Foundation

/// What `megaton bench pipeline` measured.
struct PipelineReport: Encodable, Sendable {
    /// A part of the work, or the whole.
    struct Stage: Encodable, Sendable {
        var stage: String
        /// Of all threads together; a stage's as if they did nothing else.
        var imagesPerSecond: Double
        var latency: Percentiles
    }

    var images: Int
    /// Of the sources.
    var bytes: Int
    /// Pixels within which the renditions fit.
    var side: Int
    var threads: Int
    /// What the stages are made by: libvips where a format is among them that planes cannot be written as.
    var stagesEngine: String
    var stages: [Stage]
    /// The bare loop, by format.
    var all: [Stage]

    var text: String {
        let head =
            "\(images) pictures of \(bytes / max(1, images) / 1024) KiB, to \(side)x\(side), \(threads) threads; "
            + "stages by the engine \(stagesEngine)"
        let rows = (stages + all).map { stage in
            stage.stage.padding(toLength: 14, withPad: " ", startingAt: 0)
                + String(format: "%10.1f", stage.imagesPerSecond) + stage.latency.columns
        }
        return ([head, "stage           images/s" + Percentiles.heads] + rows).joined(separator: "\n")
    }
}

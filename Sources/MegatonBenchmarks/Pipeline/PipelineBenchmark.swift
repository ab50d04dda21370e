import Foundation
import MegatonCommandLine
import MegatonPipeline

/// Measures repeated renders of images from memory to memory.
struct PipelineBenchmark: Sendable {
    let inputs: [String]
    /// Side of the square that the renditions fit into, pixels.
    let side: Int
    let formats: [Rendition.Format]
    let engine: RenderEngineChoice
    let profile: Rendition.QualityProfile
    /// Time for the stages, and for the loop of each format.
    let time: Duration
    let threads: Int

    func run() async throws -> PipelineReport {
        let pool = ThreadPool(
            name: "megaton-bench",
            count: threads,
            stackSize: 8 << 20,
            onThreadExit: VipsRuntime.endThread
        )
        defer { pool.stop() }
        let images = try await pool.run { [inputs] in try BenchmarkImages(inputs) }
        if images.isCut { Terminal.error("megaton: only the first \(images.images.count) images are used.") }
        let sources = try await usable(images.images, pool)
        var report = PipelineReport(
            images: sources.count,
            bytes: sources.reduce(0) { $0 + $1.count },
            side: side,
            threads: threads,
            stagesEngine: stagesEngine.rawValue,
            stages: [],
            all: []
        )
        report.stages = try await stages(of: sources, pool)
        for format in formats { report.all.append(try await all(of: sources, format, pool)) }
        return report
    }

    /// Engine for one decode into all formats: planes can be encoded only as JPEG and WebP.
    private var stagesEngine: RenderEngineChoice {
        formats.allSatisfy { $0 == .jpeg || $0 == .webp } ? engine : .vips
    }

    private func rendition(_ format: Rendition.Format) -> Rendition {
        Rendition(width: side, height: side, format: format, qualityProfile: profile)
    }

    /// Renders each image once, to find the usable ones and to do one-time work in advance.
    private func usable(_ images: [BenchmarkImages.Image], _ pool: ThreadPool) async throws -> [Data] {
        let loops = try formats.map { try RenderLoop(rendition($0), engine: engine) }
        let isUsable = try await withThrowingTaskGroup(of: (Int, Bool).self) { group in
            for (index, image) in images.enumerated() {
                group.addTask {
                    do {
                        try await pool.run { for loop in loops { _ = try loop.render(image.data) } }
                        return (index, true)
                    } catch let error as ImagePipeline.Error {
                        Terminal.error("megaton: \(image.path) is left out: \(error.message)")
                        return (index, false)
                    }
                }
            }
            return try await group.reduce(into: [Int: Bool]()) { $0[$1.0] = $1.1 }
        }
        let sources = images.indices.filter { isUsable[$0] == true }.map { images[$0].data }
        if sources.isEmpty { throw CLIError.usage("none of the inputs is an image that can be rendered.") }
        return sources
    }

    private func stages(of sources: [Data], _ pool: ThreadPool) async throws -> [PipelineReport.Stage] {
        let steps = try RenderStages(rendition(formats[0]), engine: stagesEngine)
        let table = LatencyTable()
        _ = try await runRepeatedly(sources, pool) { [formats] data in
            let header = try table.measure("header") { () throws(ImagePipeline.Error) in try steps.header(data) }
            let decoded = try table.measure("decode") { () throws(ImagePipeline.Error) in
                try steps.decode(data, header)
            }
            let resized = try table.measure("resize") { () throws(ImagePipeline.Error) in try steps.resize(decoded) }
            for format in formats {
                _ = try table.measure("encode \(format.rawValue)") { () throws(ImagePipeline.Error) in
                    try steps.encode(resized, as: format)
                }
            }
        }
        return (["header", "decode", "resize"] + formats.map { "encode \($0.rawValue)" }).map { name in
            let histogram = table[name]
            // Rate of all threads if they did nothing else.
            let speed = Double(histogram.count * threads) / max(1e-6, Double(histogram.sum) / 1e6)
            return PipelineReport.Stage(stage: name, imagesPerSecond: speed, latency: Percentiles(histogram))
        }
    }

    private func all(
        of sources: [Data],
        _ format: Rendition.Format,
        _ pool: ThreadPool
    ) async throws -> PipelineReport.Stage {
        let (table, loop) = (LatencyTable(), try RenderLoop(rendition(format), engine: engine))
        let elapsed = try await runRepeatedly(sources, pool) { data in
            _ = try table.measure("all") { () throws(ImagePipeline.Error) in try loop.render(data) }
        }
        let histogram = table["all"]
        return PipelineReport.Stage(
            stage: "all \(format.rawValue)",
            imagesPerSecond: Double(histogram.count) / elapsed.inSeconds,
            latency: Percentiles(histogram)
        )
    }

    /// Processes the sources on all threads until the time is over; each thread processes at least one.
    ///
    /// - Returns: the time it took.
    private func runRepeatedly(
        _ sources: [Data],
        _ pool: ThreadPool,
        _ work: @escaping @Sendable (Data) throws -> Void
    ) async throws -> Duration {
        let numbers = SharedCounter()
        let start = ContinuousClock.now
        let end = start + time
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<threads {
                group.addTask {
                    try await pool.run {
                        repeat { try work(sources[numbers.next() % sources.count]) } while ContinuousClock.now < end
                    }
                }
            }
            try await group.waitForAll()
        }
        return start.duration(to: .now)
    }
}

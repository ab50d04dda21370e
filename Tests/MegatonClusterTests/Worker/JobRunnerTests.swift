import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Outputs of a job that have no path, and notes about those that were made.
@Suite struct JobRunnerTests {
    /// Runs a job on a worker whose only output root is `out` of the directory.
    private func run(
        _ output: String,
        _ directory: TestDirectory,
        _ rendition: Rendition = Rendition(width: 8),
        pixels: Data? = nil
    ) async throws -> (result: JobRunner.Result, metrics: PipelineMetrics) {
        let threads = ThreadPool(name: "test", count: 1)
        defer { threads.stop() }
        let access = FileAccess(roots: [directory.path + "/out"])
        let runner = JobRunner(
            pipeline: ImagePipeline(),
            credentials: Credentials(),
            output: FileOutput(access: access, threads: threads),
            statistics: StatisticsRecorder()
        )
        let image = pixels ?? TestImage.quarters(width: 32, height: 32)
        let job = Job(
            source: "data:image/png;base64,\(image.base64EncodedString())",
            renditions: [rendition],
            output: output
        )
        let metrics = PipelineMetrics()
        return (await runner.run(job, maximumFailureAge: nil, metrics: metrics), metrics)
    }

    /// Fault: the source was fetched and rendered first.
    @Test(arguments: [
        ("file://DIR/out/{label.kind}.{ext}", "the job has no label \"kind\""),
        ("file://DIR/out/{kind}.{ext}", "output"), ("ftp://DIR/{name}.{ext}", "output must be a file: URL"),
    ])
    func anOutputWithoutAPathIsRefusedBeforeTheSourceIsRead(_ output: String, _ message: String) async throws {
        let directory = try TestDirectory()
        let (result, metrics) = try await run(output.replacing("DIR", with: directory.path), directory)
        guard case .failed(let error) = result else { throw CancellationError() }
        #expect(error.code == .forbidden && error.message.contains(message), "\(error)")
        #expect(metrics.counts.renders == 0 && directory.files.isEmpty)
    }

    /// Fault: an image far below its target was done without a note.
    @Test func aTargetThatIsMissedIsANote() async throws {
        let directory = try TestDirectory()
        var random = SeededGenerator(seed: 4)
        let noise = TestImage.png(width: 96, height: 96) { _, _ in
            (.random(in: 0...255, using: &random), .random(in: 0...255, using: &random), 0, 255)
        }
        var small = Rendition(name: "small", width: 96)
        small.targetScore = 100
        let output = "file://\(directory.path)/out/{name}.{ext}"
        let (result, metrics) = try await run(output, directory, small, pixels: noise)
        guard case .done(let outputs) = result else { throw CancellationError() }
        let score = try #require(outputs.first?.score)
        #expect(score < 100 && metrics.notes.count == 1)
        #expect(metrics.notes.first?.hasPrefix("small has the score \((score * 10).rounded(.down) / 10), ") == true)
        var easy = Rendition(name: "easy", width: 16)
        easy.targetScore = 30
        let reached = try await run(output, directory, easy)
        #expect(reached.metrics.notes.isEmpty)
    }
}

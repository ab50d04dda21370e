import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// A job that may not write its outputs is refused before its source is fetched and rendered.
///
/// Fault: a fleet fetched and rendered each source of a list before it refused the outputs, if `--allow-root` was
/// forgotten.
@Suite struct ForbiddenOutputTests {
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

    @Test(arguments: [
        ("file://DIR/other/{stem}-{name}.{ext}", "DIR/other/ is not beneath an allowed output root (DIR/out)"),
        ("file://DIR/output.{ext}/{name}.{ext}", ""), ("file:///{host}/{name}.{ext}", ""),
        ("s3://bucket/{stem}-{name}.{ext}", "The output s3://bucket/ is an object, and this worker may write to no"),
        ("file://DIR/out/{label.kind}.{ext}", "the job has no label \"kind\""),
    ])
    func nothingIsRendered(_ output: String, _ message: String) async throws {
        let directory = try TestDirectory()
        let expected = message.replacing("DIR", with: directory.path)
        let (result, metrics) = try await run(output.replacing("DIR", with: directory.path), directory)
        guard case .failed(let error) = result else { throw CancellationError() }
        #expect(error.code == .forbidden && error.message.contains(expected), "\(error)")
        // A directory above the root may have outputs in it: only the whole path shows that it has not.
        #expect(metrics.counts.renders == (message.isEmpty ? 1 : 0))
        #expect(directory.files.isEmpty)
    }

    @Test(arguments: ["out/{stem}-{name}.{ext}", "out/deep/{name}.{ext}", "{stem}/../out/x", "out/../out/{name}.{ext}"])
    func allowedOutputsAreWritten(_ output: String) async throws {
        let directory = try TestDirectory()
        let (result, _) = try await run("file://\(directory.path)/\(output)", directory)
        if case .done = result {
            #expect(!output.contains("..") && directory.files.count == 1)
        } else {
            #expect(output.contains("..") && directory.files.isEmpty)
        }
    }

    /// Links are resolved: the directory of the output lies in a root in another way.
    @Test func aLinkToARootIsARoot() async throws {
        let directory = try TestDirectory()
        let files = FileManager.default
        try files.createDirectory(atPath: directory.path + "/out", withIntermediateDirectories: true)
        try files.createSymbolicLink(atPath: directory.path + "/link", withDestinationPath: directory.path + "/out")
        try files.createSymbolicLink(atPath: directory.path + "/away", withDestinationPath: directory.path)
        let (result, _) = try await run("file://\(directory.path)/link/{name}.{ext}", directory)
        guard case .done = result else { throw CancellationError() }
        let (other, metrics) = try await run("file://\(directory.path)/away/other/{name}.{ext}", directory)
        guard case .failed = other else { throw CancellationError() }
        #expect(metrics.counts.renders == 0)
    }

    /// Fault: an image far below its target was done without a word.
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

import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// The damage level that counts: the rendition's, else the job's, else the worker's.
struct DamageLevelTests {
    private func run(
        _ rendition: Rendition.FailOn?,
        _ job: Rendition.FailOn?,
        _ worker: Rendition.FailOn
    ) async throws -> (isDone: Bool, notes: [String]) {
        let whole = try TestImage.jpeg(width: 400, height: 300)
        let cut = whole.prefix(whole.count - whole.count / 20) + [0xFF, 0xD9]
        let threads = ThreadPool(name: "test", count: 1)
        defer { threads.stop() }
        let runner = JobRunner(
            pipeline: ImagePipeline(),
            credentials: Credentials(),
            output: FileOutput(access: FileAccess(roots: []), threads: threads),
            statistics: StatisticsRecorder(),
            failOn: worker
        )
        let wanted = Job(
            source: "data:image/jpeg;base64,\(cut.base64EncodedString())",
            renditions: [Rendition(width: 40, failOn: rendition)],
            failOn: job
        )
        let metrics = PipelineMetrics()
        let result = try await runner.run(Job(json: wanted.json()), maximumFailureAge: nil, metrics: metrics)
        if case .done = result { return (true, metrics.notes) }
        return (false, metrics.notes)
    }

    @Test(arguments: [
        (Rendition.FailOn?.none, Rendition.FailOn?.none, Rendition.FailOn.truncated, false),
        (nil, nil, .nothing, true), (nil, .nothing, .truncated, true), (nil, .truncated, .nothing, false),
        (.nothing, .truncated, .warning, true), (.error, .nothing, .nothing, false),
    ])
    func theNearestSays(
        _ rendition: Rendition.FailOn?,
        _ job: Rendition.FailOn?,
        _ worker: Rendition.FailOn,
        _ isDone: Bool
    ) async throws {
        let ended = try await run(rendition, job, worker)
        #expect(ended.isDone == isDone && ended.notes.count == (isDone ? 1 : 0))
    }

    @Test func plainJSONHasTheLevelOfAJobToo() throws {
        let json = Data(#"{"source":"a","failOn":"none"}"#.utf8)
        #expect(Job(plainJSON: json)?.failOn == .nothing)
        #expect(try JSONDecoder().decode(Job.self, from: json).failOn == .nothing)
        let error = #expect(throws: JobError.self) { try Job(json: Data(#"{"source":"a","failOn":"x"}"#.utf8)) }
        #expect(error?.message.contains("failOn") == true)
    }
}

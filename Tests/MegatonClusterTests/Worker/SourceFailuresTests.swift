import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster
@testable import MegatonCore
@testable import MegatonPipeline

/// The failures that a source had before its host was given up.
@Suite(.timeLimit(.minutes(2))) struct SourceFailuresTests {
    private static func failure(_ code: ImageError.Code, _ message: String) -> ImageError {
        ImageError(code, message, stage: .load)
    }

    private struct Runner: JobRunning {
        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            .failed(ImageError(.cancelled, "It is not run."))
        }
    }

    /// Fault: each source of a host that was given up failed with the last failure of another one.
    @Test func theMessageHasTheFailureOfTheSourceItself() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let handler = fixture.handler(Runner(), running: RunningJobs())
            handler.sourceFailures.note(Self.failure(.httpStatus, "http://h/a answered 500."), of: "http://h/a")
            var error = Self.failure(.unreachable, "Host h has failed for 60.0 s.")
            error.hostTurn = HostTurn(host: "h", wait: 60, interval: 1, isGivenUp: true)
            let end = " Jobs of host h no longer wait for it; the same command again or dead requeue starts them."
            #expect(
                handler.message(of: error, for: "http://h/a")
                    == "Host h has failed for 60.0 s. This source failed with http_status: http://h/a answered 500."
                    + end
            )
            for other in ["http://h/b", nil] {
                #expect(handler.message(of: error, for: other) == "Host h has failed for 60.0 s." + end)
            }
            // The failure of this source is the one for which the host was given up.
            handler.sourceFailures.note(error, of: "http://h/c")
            #expect(handler.message(of: error, for: "http://h/c") == "Host h has failed for 60.0 s." + end)
        }
    }

    @Test func theLastFailuresAreRemembered() {
        let failures = SourceFailures()
        let ofHost = Self.failure(.unreachable, "Host h has failed.")
        func last(_ source: String) -> String? { failures.last(of: source, besides: ofHost) }
        failures.note(Self.failure(.tls, "first"), of: "a")
        failures.note(Self.failure(.timedOut, String(repeating: "x", count: 10_000)), of: "a")
        #expect(last("a")?.hasPrefix("timed_out: x") == true)
        #expect(last("a").map { $0.count < 1000 } == true && last("b") == nil)
        for index in 0..<2048 { failures.note(Self.failure(.tls, "y"), of: "\(index)") }
        #expect(last("a") != nil, "it is in the older generation")
        for index in 0..<4096 { failures.note(Self.failure(.tls, "y"), of: "\(index)x") }
        #expect(last("a") == nil && last("4095x") == "tls: y")
        failures.forget("4095x")
        failures.note(ImageError(.outputFailed, "not of a load", stage: .store), of: "c")
        failures.note(Self.failure(.tls, "y"), of: "data:" + String(repeating: "A", count: 10_000))
        #expect(last("4095x") == nil && last("c") == nil)
        #expect(last("data:" + String(repeating: "A", count: 10_000)) == nil)
    }
}

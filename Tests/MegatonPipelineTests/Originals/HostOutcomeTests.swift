import Foundation
import MegatonHTTP
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonPipeline

/// The outcome of a request as the limits of its host see it.
@Suite(.timeLimit(.minutes(2))) struct HostOutcomeTests {
    private final class Recorder: FetchLimiting {
        let outcomes = Mutex<[OriginOutcome]>([])

        func acquire(for url: URL) async throws(ImagePipeline.Error) -> FetchPermit {
            FetchPermit(host: url.host() ?? "", token: nil)
        }

        func release(_ permit: FetchPermit, outcome: OriginOutcome, cause: ImagePipeline.Error?) async -> HostTurn? {
            outcomes.withLock { $0.append(outcome) }
            return nil
        }
    }

    /// Fault: dead targets of a link shortener opened the circuit breaker of the shortener, and the Retry-After of one
    /// target kept all requests from it.
    @Test(arguments: [
        ("one.test", "500", OriginOutcome.failed), ("two.test", "500", .answered),
        ("one.test", "429", .throttled(seconds: 60)), ("two.test", "429", .answered), ("two.test", "closed", .answered),
        ("one.test", "closed", .absent), ("www.one.test", "429", .throttled(seconds: 60)),
    ])
    func aRedirectIsAnAnswerWhateverTheNextHostDoes(
        _ host: String,
        _ path: String,
        _ expected: OriginOutcome
    ) async throws {
        let port = Mutex(0)
        try await OriginServer.run(answer: { asked in
            let own = port.withLock { $0 }
            switch asked {
            case "/500": return .init(status: 500)
            case "/429": return .init(status: 429, headers: [("Retry-After", "60")])
            default:
                // Nothing listens on port 1.
                let target = path == "closed" ? "http://\(host):1/" : "http://\(host):\(own)/\(path)"
                return .init(status: 302, headers: [("Location", target)])
            }
        }) { (origin) async throws in
            port.withLock { $0 = origin.port }
            var settings = DataLoader.Configuration()
            settings.addressPolicy.allowsPrivate = true
            settings.addressPolicy.ports.insert(1)
            settings.resolve = { _ in ["127.0.0.1"] }
            let recorder = Recorder()
            var configuration = ImagePipeline.Configuration()
            configuration.dataLoader = DataLoader(settings)
            configuration.fetchLimiter = recorder
            let url = try #require(URL(string: "http://one.test:\(origin.port)/start"))
            await #expect(throws: ImagePipeline.Error.self) {
                _ = try await ImagePipeline(configuration: configuration).data(for: ImageRequest(url: url))
            }
            #expect(recorder.outcomes.withLock { $0 } == [expected])
        }
    }
}

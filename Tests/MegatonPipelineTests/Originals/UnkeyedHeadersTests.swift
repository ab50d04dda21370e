import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// A response that a delegate's token gave access to is not reused for other requests, unless the origin or the request
/// allows it.
@Suite(.timeLimit(.minutes(2))) struct UnkeyedHeadersTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let control: String
        var vary: String?
        var scope: String?
        let isKept: Bool

        var testDescription: String { "\(control), Vary: \(vary ?? "-"), scope: \(scope ?? "-")" }
    }

    private let cache = CountingDataCache()

    private func site(_ rule: Case) -> @Sendable (OriginServer.Request) -> OriginServer.Answer {
        { _ in
            let fields = [("Cache-Control", rule.control), ("Content-Type", "image/png")]
            return OriginServer.Answer(
                headers: fields + (rule.vary.map { [("Vary", $0)] } ?? []),
                body: TestPipeline.png
            )
        }
    }

    private func delegate() -> TestDelegate {
        TestDelegate {
            $0.willLoad = { request, _ in
                var request = request
                request.setValue("de", forHTTPHeaderField: "Accept-Language")
                request.setValue("Bearer 1", forHTTPHeaderField: "Authorization")
                return request
            }
        }
    }

    /// Loads twice, as two workers that share a cache. Renditions end after the originals they were made from are
    /// stored.
    private func askTwice(_ request: ImageRequest, delegate: TestDelegate?) async throws {
        for _ in 0..<2 {
            let worker = PipelineProbe(cache, delegate: delegate).pipeline
            _ = try await worker.renditions([Rendition(width: 4)], for: request)
        }
    }

    /// The response to a request that a delegate made conditional or partial answers only that request.
    @Test(arguments: ["Range", "if-none-match", "If-Range"])
    func aConditionThatADelegateAddsIsSeen(_ name: String) {
        let known = URLRequest(url: TestPipeline.url)
        var (sent, posted) = (known, known)
        sent.setValue("bytes=0-1", forHTTPHeaderField: name)
        posted.httpMethod = "POST"
        #expect(UnkeyedHeaders(sent: sent, known: known, scope: nil).isExclusive)
        #expect(!UnkeyedHeaders(sent: sent, known: sent, scope: nil).isExclusive)
        #expect(UnkeyedHeaders(sent: posted, known: known, scope: nil).isExclusive)
    }

    // Fault: a response that a delegate's token gave access to was stored for all (RFC 9111 sections 3.5 and 4.1).
    @Test(arguments: [
        Case(control: "max-age=60", isKept: false),
        Case(control: "public, max-age=60", isKept: true),
        Case(control: "s-maxage=60", isKept: true),
        Case(control: "max-age=60", scope: "alice", isKept: true),
        Case(control: "private, max-age=60", scope: "alice", isKept: false),
        Case(control: "public, max-age=60", vary: "Accept", isKept: true),
        Case(control: "public, max-age=60", vary: "Accept, AUTHORIZATION", isKept: false),
        Case(control: "public, max-age=60", vary: "Authorization", scope: "alice", isKept: true),
        // The scope stands for the credentials, but not for the language.
        Case(control: "public, max-age=60", vary: "Accept-Language", scope: "alice", isKept: false),
    ])
    func responsesToATokenOfTheDelegate(_ rule: Case) async throws {
        try await OriginServer.run(responding: site(rule)) { (origin) async throws in
            var request = ImageRequest(url: origin.url("/a"))
            request.credentialScope = rule.scope
            try await askTwice(request, delegate: delegate())
            #expect(origin.total == (rule.isKept ? 1 : 2))
            #expect((cache.entries[CacheKey.original(of: request).description] != nil) == rule.isKept)
            #expect(cache.entries.isEmpty == !rule.isKept, "nor is what was made of it")
        }
    }

    @Test(arguments: [
        Case(control: "max-age=60", isKept: false),
        Case(control: "public, max-age=60", isKept: true),
        Case(control: "max-age=60", scope: "alice", isKept: true),
    ])
    func responsesToATokenOfTheRequest(_ rule: Case) async throws {
        try await OriginServer.run(responding: site(rule)) { (origin) async throws in
            var request = ImageRequest(url: origin.url("/a"))
            request.headers = ["Authorization": "Bearer 1"]
            request.credentialScope = rule.scope
            try await askTwice(request, delegate: nil)
            #expect(origin.total == (rule.isKept ? 1 : 2))
        }
    }

    /// Requests share a response only within one scope.
    @Test func aScopeIsNotOthers() async throws {
        try await OriginServer.run(responding: site(Case(control: "max-age=60", isKept: true))) {
            (origin) async throws in
            var request = ImageRequest(url: origin.url("/a"))
            for scope in ["alice", "bob", "alice"] {
                request.credentialScope = scope
                _ = try await PipelineProbe(cache, delegate: delegate()).pipeline
                    .renditions([Rendition(width: 4)], for: request)
            }
            #expect(origin.total == 2)
        }
    }
}

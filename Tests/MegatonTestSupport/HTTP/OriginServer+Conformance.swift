import Foundation
public import MegatonPipelineTesting
import NIOCore

extension OriginServer {
    /// Starts an origin with the resources of the loader conformance suite, runs the body, and stops the origin.
    public static func runConformance<Value>(
        isolation: isolated (any Actor)? = #isolation,
        _ body: (ConformanceOrigin) async throws -> Value
    ) async throws -> Value {
        try await run(responding: answer) { (server) async throws in
            try await body(ConformanceOrigin(baseURL: server.url("")))
        }
    }

    @Sendable private static func answer(to request: Request) -> Answer {
        guard let resource = ConformanceOrigin.Resource(path: request.path) else { return Answer(status: 404) }
        switch resource {
        case .conditional where request.headers["if-none-match"] == ConformanceOrigin.Resource.validator:
            return Answer(status: 304)
        case .bytes, .status, .conditional:
            return Answer(status: resource.status, body: resource.body)
        case .cut:
            return Answer(body: resource.body, announcedLength: resource.announcedLength)
        case .chunks(let count):
            let piece = ConformanceOrigin.Resource.piece
            return Answer(
                stream: OriginStream(piece: piece, interval: .milliseconds(3), total: count * piece.count)
            )
        case .hang:
            let never = OriginStream(piece: Data(count: 1), interval: .hours(1))
            // With a length of 0 the response would be complete.
            let length = max(1, resource.announcedLength ?? 1)
            return Answer(body: resource.body, announcedLength: length, stream: never)
        }
    }
}

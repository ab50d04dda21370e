import Foundation
public import MegatonPipelineTesting
import NIOCore

extension OriginServer {
    /// Starts one that answers what loaders are tried on, runs the body, and stops it.
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
            // A length of 0 would be an answer that has come to its end.
            let length = max(1, resource.announcedLength ?? 1)
            return Answer(body: resource.body, announcedLength: length, stream: never)
        }
    }
}

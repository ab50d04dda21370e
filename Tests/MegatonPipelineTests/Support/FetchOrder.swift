import Foundation
import MegatonTestSupport

@testable import MegatonPipeline

/// Records the order in which an origin is asked.
enum FetchOrder {
    /// Runs several requests while only one download at a time is allowed and the first is held.
    ///
    /// - Parameter start: starts the requests that queue behind the first one; each returned closure waits for one to
    ///   end.
    /// - Returns: paths that the origin was asked for, in order.
    static func paths(
        _ start: (PipelineProbe, OriginServer) async throws -> [@Sendable () async throws -> Void]
    ) async throws -> [String] {
        let paths = TaskTestBox<[String]>([])
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { path in
            paths.withLock { $0.append(path) }
            return .image(image)
        }) { (origin) async throws in
            let probe = PipelineProbe { $0.fetchConcurrency = 1 }
            origin.hold()
            let first = probe.pipeline.imageTask(with: origin.url("/first"))
            await origin.waitForRequests("/first", count: 1)
            let ends = try await start(probe, origin)
            origin.release()
            _ = try await first.response
            for end in ends { try await end() }
        }
        return paths.value
    }
}

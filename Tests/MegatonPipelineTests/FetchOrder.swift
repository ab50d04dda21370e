import Foundation
import MegatonTestSupport

@testable import MegatonPipeline

/// In which order an origin is asked.
enum FetchOrder {
    /// Which paths an origin is asked for, where one download at a time is allowed and the first one takes long.
    ///
    /// - Parameter start: begins what waits for that; what it returns waits for the ends.
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

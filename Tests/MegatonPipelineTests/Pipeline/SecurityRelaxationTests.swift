import Foundation
import Logging
import MegatonPipelineTesting
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Security relaxations are logged, each once.
@Suite(.timeLimit(.minutes(2))) struct SecurityRelaxationTests {
    private func warnings(_ change: (inout ImagePipeline.Configuration) -> Void) async throws -> [String] {
        let log = LogRecorder()
        var configuration = ImagePipeline.Configuration()
        configuration.logger = Logger(label: "test") { _ in log }
        change(&configuration)
        let pipeline = ImagePipeline(configuration: configuration)
        let request = ImageRequest(id: "picture", data: { TestPipeline.png })
        for _ in 0..<2 { _ = try await pipeline.image(for: request) }
        return log.recorded.filter { $0.contains("relaxes the security defaults") }
    }

    private func loader(_ change: (inout DataLoader.Configuration) -> Void) -> DataLoader {
        var configuration = DataLoader.Configuration()
        change(&configuration)
        return DataLoader(configuration)
    }

    @Test func theDefaultsAreSafe() async throws {
        #expect(try await warnings { _ in } == [])
        let stricter = try await warnings {
            $0.renderLimits.pixels = 1_000_000
            $0.maximumDataSize = 1 << 20
            $0.urlPolicy.schemes = ["https"]
            $0.fileAccess = FileAccess(roots: ["/srv/pictures"])
            $0.dataLoader = loader { $0.timeout = .seconds(1) }
        }
        #expect(stricter == [])
    }

    @Test func securityRelaxationsAreLoggedOnce() async throws {
        let cases: [(String, (inout ImagePipeline.Configuration) -> Void)] = [
            ("loopback, private", { $0.dataLoader = loader { $0.addressPolicy.allowsPrivate = true } }),
            ("ports are fetched: 8080", { $0.dataLoader = loader { $0.addressPolicy.ports.insert(8080) } }),
            ("s3: sources", { $0.dataLoader = loader { $0.s3 = S3Endpoint(url: TestPipeline.url) } }),
            ("timeout", { $0.dataLoader = loader { $0.timeout = .seconds(3600) } }),
            ("maximumBodySize", { $0.dataLoader = loader { $0.maximumBodySize = .max } }),
            ("beneath /,", { $0.fileAccess = FileAccess(roots: ["/"]) }),
            ("beneath /etc,", { $0.fileAccess = FileAccess(roots: ["/tmp/../etc/"]) }),
            ("schemes are fetched: ftp", { $0.urlPolicy.schemes.insert("ftp") }),
            ("pixels, time", { ($0.renderLimits.pixels, $0.renderLimits.time) = (.max, .seconds(31)) }),
            ("tiff", { $0.types.insert(.tiff) }),
            ("bytes", { $0.maximumDataSize = .max }),
            ("of memory", { $0.memoryBudget = MemoryBudget(bytes: .max) }),
        ]
        for (text, change) in cases {
            let lines = try await warnings(change)
            #expect(lines.count == 1 && lines[0].hasPrefix("warning") && lines[0].contains(text), "\(lines), \(text)")
        }
    }

    /// A decorator reports the relaxations of the loader that it wraps.
    @Test func decoratorsSayWhatIsBeneath() async throws {
        let weak = loader { $0.addressPolicy.allowsPrivate = true }
        let folder = URL(fileURLWithPath: "/nowhere")
        let loaders: [any DataLoading] = [
            RetryingDataLoader(weak), CachingDataLoader(weak, cache: MemoryDataCache()),
            RecordingDataLoader(folder: folder, .record(weak)),
        ]
        for loader in loaders {
            let lines = try await warnings { $0.dataLoader = loader }
            #expect(lines.count == 1 && lines[0].contains("loopback"), "\(loader)")
        }
    }
}

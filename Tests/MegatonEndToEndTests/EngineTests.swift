import Foundation
import MegatonTestSupport
import Testing

/// Processes of their own, in which nobody has started libvips before the first picture comes: planes do without it, and
/// whoever needs it later finds it started.
@Suite(.timeLimit(.minutes(3))) struct EngineTests {
    private let directory: TestDirectory

    init() throws {
        directory = try TestDirectory()
        try directory.write(try TestImage.jpeg(width: 90, height: 60), to: "in/a.jpg")
        try directory.write(TestImage.quarters(width: 80, height: 60), to: "png/b.png")
    }

    private func bench(_ arguments: [String]) async throws -> Int? {
        let all = ["bench", "pipeline"] + arguments + ["--size", "32", "--seconds", "1", "--threads", "1", "--json"]
        let ending = await (try ProgramUnderTest.megaton(all, directory: directory.path)).ending()
        #expect(ending.code == 0, "\(arguments): \(ending.errors)")
        let report = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
        return report?["images"] as? Int
    }

    /// Its threads end without it, too.
    @Test func planesDoWithoutLibvips() async throws {
        #expect(try await bench(["in", "--engine", "planes", "--format", "jpeg,webp"]) == 1)
    }

    /// The header was read without libvips, which is then asked for the picture.
    @Test(arguments: ["png", "avif,gif"]) func libvipsStartsBehindAHeader(_ format: String) async throws {
        #expect(try await bench(["in", "--engine", "auto", "--format", format]) == 1)
    }

    @Test func libvipsStartsBehindPlanes() async throws {
        #expect(try await bench(["in", "png", "--engine", "auto", "--format", "jpeg"]) == 2)
    }

    /// A JPEG by planes beside a PNG, and JPEGs that planes cannot make into what is wanted.
    @Test(arguments: [(["in", "png"], 2), (["in", "--fit", "contain"], 1), (["in", "--format", "png"], 1)])
    func aWorkerStartsLibvipsWhenItIsNeeded(_ arguments: [String], _ count: Int) async throws {
        let run = try ProgramUnderTest.megaton(
            ["run"] + arguments + ["--output", "out", "--size", "32x32", "--workers", "1", "--json"],
            environment: ["XDG_CACHE_HOME": directory.path + "/cache"],
            directory: directory.path
        )
        let ending = await run.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let summary = try JSONSerialization.jsonObject(with: Data(ending.output.utf8)) as? [String: Any]
        #expect(summary?["done"] as? Int == count && summary?["renders"] as? Int == count, "\(ending.output)")
    }
}

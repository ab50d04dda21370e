import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// The directory of the private Redis' cache.
@Suite(.timeLimit(.minutes(2))) struct CacheDirectoryTests {
    /// Fault: the home directory of the password database was used, whatever `HOME` was.
    @Test func theCacheIsInTheDirectoryThatTheEnvironmentNames() throws {
        let directory = try TestDirectory()
        let path = directory.path
        #expect(try EmbeddedRedis.persistentPath(["HOME": path]) == "\(path)/.cache/megaton")
        #expect(try EmbeddedRedis.persistentPath(["HOME": path, "XDG_CACHE_HOME": ""]) == "\(path)/.cache/megaton")
        #expect(try EmbeddedRedis.persistentPath(["HOME": path, "XDG_CACHE_HOME": "\(path)/x"]) == "\(path)/x/megaton")
        for name in [".cache/megaton", "x/megaton"] {
            #expect(FileManager.default.fileExists(atPath: "\(path)/\(name)"))
        }
    }

    /// Fault: a cache is optional, but a run without a directory for it ended with exit code 74.
    @Test func aRunWithoutACacheDirectoryWarnsAndDoesItsWork() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 32, height: 32), to: "in/a.png")
        let file = try home.directory.write(Data(), to: "file")
        let run = try ProgramUnderTest.megaton(
            ["run", "in", "--output", home.output, "--workers", "1"],
            environment: ["XDG_CACHE_HOME": file],
            directory: home.directory.path
        )
        let ending = await run.ending()
        #expect(ending.code == 0, "\(ending.errors)")
        let warning = "the cache directory \(file)/megaton cannot be created"
        #expect(ending.errors.contains(warning) && ending.errors.contains("XDG_CACHE_HOME"), "\(ending.errors)")
        #expect(home.outputs == ["a-256x256.jpg"])
    }
}

import Foundation
import MegatonTestSupport
import Testing

/// Rules for the Lua scripts of Redis, which are files of their own. `luacheck` checks their code.
@Suite struct ScriptFileTests {
    private static let scripts = (Repository.files("Sources") + Repository.files("Tests")).filter {
        $0.hasSuffix(".lua")
    }

    private func name(of file: String) -> String {
        URL(fileURLWithPath: file).deletingPathExtension().lastPathComponent
    }

    @Test func eachScriptBeginsWithItsContract() throws {
        #expect(Self.scripts.count > 30)
        for file in Self.scripts {
            let name = name(of: file)
            let isPrelude = name.hasSuffix("Prelude")
            var lines = try Repository.text(file).split(separator: "\n", omittingEmptySubsequences: false)
            if !isPrelude { #expect(lines.removeFirst().hasPrefix("#!lua"), "\(file) names no flags") }
            let contract = lines.prefix { $0.hasPrefix("--") }
            #expect(contract.first?.hasPrefix("-- \(name): ") == true, "\(file) does not begin with its name")
            for part in ["KEYS", "ARGV", "Returns"] where !isPrelude {
                #expect(contract.contains { $0.hasPrefix("-- \(part) ") }, "\(file) does not describe \(part)")
            }
        }
    }

    /// After its contract a script names its keys and arguments, and uses only the names.
    @Test func keysAndArgumentsHaveNames() throws {
        for file in Self.scripts {
            for line in try Repository.text(file).split(separator: "\n") where !line.hasPrefix("local ") {
                #expect(line.firstMatch(of: /(?:KEYS|ARGV)\[\d/) == nil, "\(file): \(line)")
            }
        }
    }

    @Test func embeddedFilesHaveDifferentNames() {
        let names = Self.scripts.map(name)
        #expect(Set(names).count == names.count, "embedded files of a target share a namespace")
    }

    @Test func swiftFilesContainNoScript() throws {
        // The tests of `RedisScript` run scripts of one line.
        let allowed = ["Client/RedisClientTests", "Client/ValkeyTests", "Cluster/RedisClusterTests"]
            .map { "Tests/MegatonRedisTests/\($0).swift" }
        for file in Repository.swiftFiles("Sources") + Repository.swiftFiles("Tests") where !allowed.contains(file) {
            let text = try Repository.text(file)
            for function in ["call(", "pcall(", "error_reply("] {
                #expect(!text.contains("redis." + function), "\(file) contains a Lua script")
            }
        }
    }
}

import Foundation
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

/// A cluster as the users of docs/credentials.md, which have the commands, keys and channels listed there and no more.
@Suite(.timeLimit(.minutes(3))) struct AccessControlTests {
    /// The rules on the page.
    private struct Rules {
        /// A row of the table of optional commands.
        struct Optional {
            let command: String
            let isOfControl: Bool
        }

        /// The words behind SETUSER, for each user.
        var users: [[String]] = []
        var optional: [Optional] = []

        init() throws {
            let page = try DocumentationPages.lines(of: "docs/credentials.md")
            let block = page.filter { $0.language == "sh" }.map(\.text).joined(separator: "\n")
                .replacingOccurrences(of: "\\\n", with: " ")
            for line in block.components(separatedBy: "\n") {
                let words = line.split(separator: " ").map { $0.filter { $0 != "'" } }
                guard words.starts(with: ["redis-cli", "ACL", "SETUSER"]) else { continue }
                users.append(Array(words.dropFirst(3)))
            }
            for row in page.map(\.text) where row.hasPrefix("| `+") {
                let cells = row.replacingOccurrences(of: "\\|", with: "/").components(separatedBy: "|")
                let command = cells[1].filter { !"+` ".contains($0) }.replacingOccurrences(of: "/", with: "|")
                optional.append(Optional(command: command, isOfControl: cells[2].contains("both")))
            }
        }

        /// The commands that a user must have.
        func commands(of user: String) -> Set<String> {
            let words = users.first { $0[0] == user } ?? []
            return Set(words.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) })
        }
    }

    private static let control = "megaton-control"
    private static let cache = "megaton-cache"

    // MARK: - The lists and the sources

    /// Commands that belong to another word, as in ACL rules.
    private static let containers: Set<String> = ["CLIENT", "CLUSTER", "CONFIG", "MEMORY", "OBJECT", "SCRIPT"]
    /// Not in the lists: Redis always allows AUTH and HELLO, SELECT is for other databases, and sentinels have users of
    /// their own.
    private static let exempt: Set<String> = ["auth", "hello", "select", "sentinel"]
    /// Folders of MegatonCluster whose commands go to the cache Redis; those of other folders go to the control Redis.
    private static let cacheFolders: Set<String> = ["SharedCache"]
    /// Commands of the folder Inspection that go to the cache Redis, and of those the ones that go there only.
    private static let inspectedInCache: Set<String> = [
        "config|get", "get", "info", "memory|usage", "object|freq", "ping", "scan", "script|load", "time",
        "unlink",
    ]
    private static let inspectedOnlyInCache: Set<String> = ["memory|usage", "object|freq", "scan"]

    private func matches(_ pattern: String, _ text: String) throws -> [[String]] {
        let expression = try NSRegularExpression(pattern: pattern)
        return expression.matches(in: text, range: NSRange(text.startIndex..., in: text)).map { match in
            (1..<match.numberOfRanges).map { Range(match.range(at: $0), in: text).map { String(text[$0]) } ?? "" }
        }
    }

    /// Commands in the Swift and Lua files of a folder.
    private func commands(_ folder: String) throws -> Set<String> {
        var found: Set<String> = []
        for file in Repository.files("Sources/\(folder)") {
            if file.hasSuffix(".swift") {
                let pattern = #"\[\s*"([A-Z]{2,})"(?:\s*,\s*"([A-Z]{2,})")?"#
                for match in try matches(pattern, Repository.text(file)) {
                    let isContainer = Self.containers.contains(match[0])
                    found.insert((isContainer ? "\(match[0])|\(match[1])" : match[0]).lowercased())
                }
            } else if file.hasSuffix(".lua") {
                let text = try Repository.text(file).components(separatedBy: "\n")
                    .map { $0.components(separatedBy: "--")[0] }.joined(separator: "\n")
                for match in try matches(#"(?:redis\.p?call|callForAll)\(\s*'([A-Za-z]+)'"#, text) {
                    found.insert(match[0].lowercased())
                }
            }
        }
        return found.subtracting(Self.exempt)
    }

    @Test func theListsHaveTheCommandsOfTheSourcesAndNoOthers() throws {
        let rules = try Rules()
        let connection = try commands("MegatonRedis/Connection").union(commands("MegatonRedis/Cluster"))
            .union(["evalsha", "script|load"]).subtracting(["subscribe", "unsubscribe"])
        // `ChannelSubscriptions` sends these, for the cache alone.
        var (control, cache) = (connection, connection.union(["subscribe", "unsubscribe"]))
        let folders = Set(
            Repository.files("Sources/MegatonCluster").map { $0.components(separatedBy: "/")[2] }
                .filter { !$0.hasSuffix(".swift") && $0 != "Documentation.docc" }
        )
        for folder in folders {
            let found = try commands("MegatonCluster/\(folder)")
            if folder == "Inspection" {
                #expect(found.isSuperset(of: Self.inspectedInCache))
                control.formUnion(found.subtracting(Self.inspectedOnlyInCache))
                cache.formUnion(Self.inspectedInCache)
            } else if Self.cacheFolders.contains(folder) {
                cache.formUnion(found)
            } else {
                control.formUnion(found)
            }
        }
        let allowedInControl = rules.commands(of: Self.control)
            .union(rules.optional.filter(\.isOfControl).map(\.command))
        let allowedInCache = rules.commands(of: Self.cache).union(rules.optional.map(\.command))
        for (name, allowed, sent) in [(Self.control, allowedInControl, control), (Self.cache, allowedInCache, cache)] {
            #expect(allowed.subtracting(sent).isEmpty, "\(name) may run commands that no process sends")
            #expect(sent.subtracting(allowed).isEmpty, "\(name) lacks commands that processes send")
        }
    }

    // MARK: - A cluster

    /// One Redis with both users, and the processes of a cluster that use it as them.
    private struct Fixture {
        let server: RedisServerProcess
        let admin: RedisClient
        let directory: TestDirectory
        let origin: OriginServer

        private func url(_ user: String) -> String { "unix://\(user):change-me@\(server.socket)" }

        var options: [String] {
            ["--redis", url(AccessControlTests.control), "--cache-redis", url(AccessControlTests.cache)]
        }

        func run(_ arguments: [String]) async throws -> ProgramUnderTest.Ending {
            await (try ProgramUnderTest.megaton(arguments + options)).ending()
        }

        /// The commands, keys and channels that Redis refused to any user since the start.
        func refusals() async throws -> Set<String> {
            let entries = try await admin.send(["ACL", "LOG", "128"]).array ?? []
            return Set(entries.map { "\($0.dictionary["reason"] ?? "?") \($0.dictionary["object"] ?? "?")" })
        }
    }

    private func withUsers(optional: Bool, _ body: (Fixture, Rules) async throws -> Void) async throws {
        let rules = try Rules()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(answer: { $0.contains("missing") ? .init(status: 404) : .image(image) }) {
            (origin) async throws in
            try await RedisServerProcess.run { (server) async throws in
                let admin = server.client()
                defer { admin.close() }
                for user in rules.users {
                    let extra = rules.optional.filter { user[0] == Self.cache || $0.isOfControl }.map {
                        "+\($0.command)"
                    }
                    let words = (["ACL", "SETUSER"] + user + (optional ? extra : [])).map { RedisArgument.string($0) }
                    try await admin.send(RedisCommand(words))
                }
                let directory = try TestDirectory()
                defer { directory.remove() }
                try await body(
                    Fixture(server: server, admin: admin, directory: directory, origin: origin),
                    rules
                )
            }
        }
    }

    /// Starts a cluster, lets it do jobs, and looks at it with all commands that read.
    ///
    /// - Returns: the logs of the coordinator and of the worker.
    private func smoke(_ fixture: Fixture) async throws -> String {
        let (directory, origin) = (fixture.directory, fixture.origin)
        let coordinator = try ProgramUnderTest.megaton(["coordinator"] + fixture.options)
        let worker = try ProgramUnderTest.megaton(
            ["worker", "--allow-private", "--allow-root", directory.path, "--render-threads", "1"] + fixture.options
        )
        var lines: [String] = []
        for number in 0..<8 { lines.append(origin.url("/\(number).png").absoluteString) }
        let list = try directory.write(Data(lines.joined(separator: "\n").utf8), to: "list.txt")
        let submit = try await fixture.run([
            "submit", list, "--output", "\(directory.path)/out", "--wait", "--json", "--ledger",
            "\(directory.path)/ledger.jsonl",
        ])
        #expect(submit.code == 0, "\(submit.output)\(submit.errors)")
        #expect(directory.files.count { $0.hasPrefix("out/") } >= 8)
        let missing = try await fixture.run(["submit", origin.url("/missing.png").absoluteString, "--wait", "--quiet"])
        #expect(missing.code == 2, "\(missing.errors)")
        for arguments in [
            ["status"], ["stats", "--json"], ["doctor"], ["dead", "list"], ["dead", "requeue", "--error", "not_found"],
            ["queue", "pause"], ["queue", "resume"],
        ] {
            let ending = try await fixture.run(arguments)
            #expect(ending.code == 0, "\(arguments): \(ending.output)\(ending.errors)")
        }
        for process in [worker, coordinator] { process.send(SIGTERM) }
        for process in [worker, coordinator] { #expect(await process.ending().code == 0, "\(process.errors)") }
        return coordinator.errors + worker.errors
    }

    @Test func theUsersOfThePageRunACluster() async throws {
        try await withUsers(optional: true) { (fixture, _) async throws in
            let log = try await smoke(fixture)
            let forgotten = try await fixture.run(["cache", "forget-failures"])
            #expect(forgotten.code == 0, "\(forgotten.errors)")
            #expect(try await fixture.refusals() == [])
            #expect(!log.contains("cannot be checked"), "\(log)")
        }
    }

    @Test func withoutTheOptionalCommandsChecksAreMissingAndNothingElse() async throws {
        try await withUsers(optional: false) { (fixture, rules) async throws in
            let log = try await smoke(fixture)
            let optional = Set(rules.optional.map { "command \($0.command)" })
            let refusals = try await fixture.refusals()
            #expect(refusals.isSubset(of: optional), "\(refusals.subtracting(optional))")
            // Each process says it once, and says what to grant.
            #expect(log.components(separatedBy: "cannot be checked").count == 3, "\(log)")
            #expect(log.contains("ACL SETUSER megaton-control +info +role"), "\(log)")
            let doctor = try await fixture.run(["doctor"])
            #expect(doctor.output.contains("control Redis: permissions"), "\(doctor.output)")
            #expect(doctor.output.contains("ACL SETUSER megaton-cache +info"), "\(doctor.output)")
            let stats = try await fixture.run(["stats"])
            #expect(stats.output.contains("needs +info +scan"), "\(stats.output)")
        }
    }

    /// A key that the user may not touch is an error of the start or of the command, not a missing check.
    @Test func aUserOfAnotherQueueIsRefused() async throws {
        try await withUsers(optional: true) { (fixture, _) async throws in
            try await fixture.admin.send([
                "ACL", "SETUSER", .string(Self.control), "resetkeys", "~megaton:{other}:*",
            ])
            let status = try await fixture.run(["status"])
            #expect(status.code == 69 && status.errors.contains("docs/credentials.md"), "\(status.errors)")
        }
    }
}

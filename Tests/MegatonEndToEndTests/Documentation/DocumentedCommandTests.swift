import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCLI
@testable import MegatonCommandLine

/// The commands and options in the README, `docs` and `deploy` are those of the program.
@Suite(.timeLimit(.minutes(1))) struct DocumentedCommandTests {
    /// The program as ArgumentParser describes it.
    private struct Tool: Decodable {
        let command: Command
    }

    private struct Command: Decodable {
        let commandName: String
        let subcommands: [Command]?
        let arguments: [Argument]?

        /// Long options of the command and of all beneath it.
        var options: Set<String> {
            let own = (arguments ?? []).flatMap { $0.names ?? [] }.filter { $0.kind == "long" }.map { "--\($0.name)" }
            return (subcommands ?? []).reduce(Set(own)) { $0.union($1.options) }
        }
    }

    private struct Argument: Decodable {
        let names: [Name]?
    }

    private struct Name: Decodable {
        let kind: String
        let name: String
    }

    /// Of other programs.
    private static let foreignOptions: Set<String> = ["--cluster", "--data", "--dir", "--header"]

    private func definition(of program: String = "megaton") async throws -> String {
        let arguments = ["--experimental-dump-help"]
        let ending = await
            (try program == "megaton" ? ProgramUnderTest.megaton(arguments) : ProgramUnderTest.benchmarks(arguments))
            .ending()
        #expect(ending.code == 0, "\(ending.errors)")
        return ending.output
    }

    @Test(arguments: [("megaton", 30), ("megaton-bench", 5)])
    func theCommandsExist(_ program: String, _ least: Int) async throws {
        let definition = try await definition(of: program)
        let tool = try JSONDecoder().decode(Tool.self, from: Data(definition.utf8)).command
        var count = 0
        for page in DocumentationPages.names where page != "CHANGELOG.md" {
            for call in try DocumentationPages.commands(of: page) where call.program == program {
                count += 1
                // `--no-NAME` is of each option, and the parser does not know it.
                let withdrawn = call.arguments.filter { $0.hasPrefix("--no-") }
                for option in withdrawn {
                    #expect(tool.options.contains("--" + option.dropFirst(5)), "\(page): \(option)")
                }
                let arguments = call.arguments.filter { !withdrawn.contains($0) }
                let text = "\(page): \(program) \(arguments.joined(separator: " "))"
                var command = tool.subcommands?.first { $0.commandName == arguments[0] }
                #expect(command != nil, "\(text): there is no command \(arguments[0])")
                for word in arguments.dropFirst().prefix(while: { $0.first?.isLowercase == true }) {
                    guard let subcommands = command?.subcommands, !subcommands.isEmpty else { break }
                    command = subcommands.first { $0.commandName == word }
                    #expect(command != nil, "\(text): there is no \(word)")
                }
                let unknown = OptionNames.unknown(in: arguments, definition: definition)
                #expect(unknown == nil, "\(text): there is no option \(unknown?.option ?? "")")
            }
        }
        #expect(count >= least)
    }

    @Test(arguments: [
        "docs/cli.md", "docs/cluster.md", "docs/configuration.md", "docs/credentials.md", "docs/outputs.md",
        "docs/serve.md", "docs/upgrading.md",
    ])
    func theOptionsExist(_ page: String) async throws {
        let tool = try JSONDecoder().decode(Tool.self, from: Data(try await definition().utf8)).command
        let known = tool.options.union(Self.foreignOptions).union(["--help"])
        let pieces = try Repository.text(page).components(separatedBy: "--").dropFirst()
        let names = pieces.map { $0.prefix { $0.isLowercase || $0.isNumber || $0 == "-" } }.filter { $0.count > 1 }
        #expect(!names.isEmpty)
        for name in names where name.first?.isLowercase == true {
            let option = name.hasPrefix("no-") ? name.dropFirst(3) : name
            if option.isEmpty { continue }
            #expect(
                known.contains("--\(name)") || known.contains("--\(option)"),
                "\(page): there is no option --\(name)"
            )
        }
    }
}

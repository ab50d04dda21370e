public import Foundation

/// A JSON Schema of `docs`, applied by a validator that is not ours: the package jsonschema of Python, which
/// `./scripts/test` installs.
public struct SchemaValidator: Sendable {
    private let schema: String

    /// - Parameter name: `job` or `outcome`.
    public init(_ name: String) { schema = "\(Repository.root)/docs/\(name).schema.json" }

    /// The faults of lines of JSON, at most one for each line; empty if all are valid.
    ///
    /// - Throws: `ProgramUnderTest.CannotStart` if the validator is missing; `Failed` if it does not work.
    public func faults(of lines: [Data]) async throws -> [String] {
        let directory = try TestDirectory()
        let file = try directory.write(Data(lines.joined(separator: Data("\n".utf8))), to: "lines.jsonl")
        let ending = await
            (try ProgramUnderTest(
                program: "\(Repository.root)/.build/venv/bin/python",
                arguments: ["\(Repository.root)/Tests/Schemas/validate.py", schema, file]
            )).ending()
        let faults = ending.output.split(separator: "\n").map(String.init)
        guard ending.code == (faults.isEmpty ? 0 : 1), ending.errors.isEmpty else {
            throw Failed(errors: ending.errors)
        }
        return faults
    }

    /// The validator failed; its messages.
    public struct Failed: Error {
        public let errors: String
    }
}

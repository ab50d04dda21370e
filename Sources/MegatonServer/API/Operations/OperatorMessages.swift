internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCore
internal import NIOCore

/// The parameters of a request's query, after a check that none of them is unknown or repeated.
struct OperatorQuery {
    private let values: [String: String]

    /// - Throws: `APIError` 400.
    init(_ request: Request, known: [String]) throws {
        var values: [String: String] = [:]
        for (key, value) in request.uri.queryParameters {
            // `?` without parameters.
            if key.isEmpty && value.isEmpty { continue }
            let name = String(key)
            guard known.contains(name) else {
                throw APIError(.badRequest, FieldProblem.sentence(Self.unknown(name, known)))
            }
            guard values.updateValue(String(value), forKey: name) == nil else {
                throw APIError(.badRequest, "The parameter \(name) is there more than once; send it once.")
            }
        }
        self.values = values
    }

    private static func unknown(_ name: String, _ known: [String]) -> String {
        if known.isEmpty { return "The request has the parameter \(FieldProblem.quoted(name)), and takes none" }
        let near = Spelling.nearest(to: name, among: known).map { "; did you mean \"\($0)\"?" } ?? ""
        return "The parameter \(FieldProblem.quoted(name)) is unknown; known are "
            + "\(known.sorted().joined(separator: ", "))\(near)"
    }

    func text(_ name: String) -> String? { values[name] }

    /// - Throws: `APIError` 400 for a text that is no number in the range.
    func number(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw APIError(
                .badRequest,
                "The parameter \(name) is \(FieldProblem.quoted(text)); allowed are \(range.lowerBound) to "
                    + "\(range.upperBound)."
            )
        }
        return number
    }
}

/// The body of an operator's request: a small JSON object.
enum OperatorBody {
    /// Maximum size of a body, bytes.
    static let maximumSize = 256 * 1024

    /// - Throws: `APIError` 413 for a larger body, 415 for another type, and 400 for another object, with the field.
    static func read<Value: Decodable>(_ type: Value.Type, from request: Request) async throws -> Value {
        let media = request.headers[.contentType]?.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        guard media?.lowercased() == "application/json" else {
            throw APIError(
                .unsupportedMediaType,
                "The body must be JSON, with the header Content-Type: application/json."
            )
        }
        let bytes: ByteBuffer
        do {
            bytes = try await request.body.collect(upTo: maximumSize)
        } catch is NIOTooManyBytesError {
            throw APIError(.contentTooLarge, "The body is larger than \(maximumSize) bytes; send several requests.")
        }
        do {
            return try JSONDecoder().decode(type, from: Data(bytes.readableBytesView))
        } catch {
            // Foundation's own message may quote a part of the body.
            let problem = (error as? DecodingError)?.fieldProblem
            let text = problem.map { $0.path.isEmpty ? "The body \($0.problem)" : "The field \($0)" }
            throw APIError(.badRequest, FieldProblem.sentence(text ?? "The body is not a valid JSON object"))
        }
    }
}

/// The answer to an operator's request: JSON in the form of the command line, with names such as `is_known`.
enum OperatorAnswer {
    static func json(_ value: some Encodable) throws -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return json(ByteBuffer(bytes: try encoder.encode(value)))
    }

    /// - Parameter bytes: a whole JSON value.
    static func json(_ bytes: ByteBuffer) -> Response {
        // The state of a moment, for the holder of a token.
        Response(
            status: .ok,
            headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: bytes)
        )
    }
}

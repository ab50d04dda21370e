internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCore

/// The arguments in the query of a request. An argument that the route does not know is an error: a misspelled one
/// would have no effect.
struct QueryArguments {
    private var values: [String: String] = [:]

    /// - Parameter allowed: names of the arguments that the route knows.
    /// - Throws: an error with the status 400 for another argument, and for one that is there more than once.
    init(_ request: Request, allowed: String...) throws(APIError) {
        for (key, value) in request.uri.queryParameters {
            // A question mark alone.
            if key.isEmpty && value.isEmpty { continue }
            let name = String(key)
            guard allowed.contains(name) else {
                throw APIError(.badRequest, FieldProblem.sentence(Self.unknown(name, allowed)))
            }
            guard values.updateValue(String(value), forKey: name) == nil else {
                throw APIError(.badRequest, "The request has the argument \(name) more than once; send it once.")
            }
        }
    }

    private static func unknown(_ name: String, _ allowed: [String]) -> String {
        let start = "The request has the unknown argument \(FieldProblem.quoted(name)); it takes "
        if allowed.isEmpty { return start + "none" }
        let near = Spelling.nearest(to: name, among: allowed).map { "; did you mean \"\($0)\"?" } ?? ""
        return start + allowed.joined(separator: ", ") + near
    }

    func text(_ name: String) -> String? { values[name] }

    /// A whole number.
    func number(_ name: String, _ range: ClosedRange<Int>) throws(APIError) -> Int? {
        guard let text = values[name] else { return nil }
        // Digits only: a plus sign would be a space for other readers of a query.
        let isNumber = text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard isNumber, let number = Int(text), range.contains(number) else {
            throw APIError(
                .badRequest,
                "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound), not "
                    + "\(FieldProblem.quoted(text))."
            )
        }
        return number
    }

    func truth(_ name: String) throws(APIError) -> Bool? {
        guard let text = values[name] else { return nil }
        guard let value = Bool(text) else {
            throw APIError(.badRequest, "\(name) must be true or false, not \(FieldProblem.quoted(text)).")
        }
        return value
    }
}

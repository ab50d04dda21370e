internal import Hummingbird
internal import HummingbirdCore

/// The arguments in the query of a request. An argument that the route does not know is an error: a misspelled one
/// would have no effect.
struct QueryArguments {
    private var values: [String: String] = [:]

    /// - Parameter allowed: names of the arguments that the route knows.
    init(_ request: Request, allowed: String...) throws(APIError) {
        for (name, value) in request.uri.queryParameters {
            // A question mark alone.
            if name.isEmpty && value.isEmpty { continue }
            let name = String(name)
            guard allowed.contains(name) else {
                let known = allowed.isEmpty ? "it takes none" : "it takes \(allowed.joined(separator: ", "))"
                throw APIError(.badRequest, "The request has an unknown argument \"\(name.prefix(64))\": \(known).")
            }
            guard values.updateValue(String(value), forKey: name) == nil else {
                throw APIError(.badRequest, "The request has the argument \(name) more than once.")
            }
        }
    }

    func text(_ name: String) -> String? { values[name] }

    /// A whole number.
    func number(_ name: String, _ range: ClosedRange<Int>) throws(APIError) -> Int? {
        guard let text = values[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw APIError(
                .badRequest,
                "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound), not "
                    + "\"\(text.prefix(64))\"."
            )
        }
        return number
    }

    func truth(_ name: String) throws(APIError) -> Bool? {
        guard let text = values[name] else { return nil }
        guard let value = Bool(text) else {
            throw APIError(.badRequest, "\(name) must be true or false, not \"\(text.prefix(64))\".")
        }
        return value
    }
}

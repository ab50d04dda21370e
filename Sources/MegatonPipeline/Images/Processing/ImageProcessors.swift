/// The built-in processors. In addition to their documented errors, all throw `.renderTimedOut` and `.cancelled` when
/// their context's deadline passes or the request is cancelled.
public enum ImageProcessors {
    /// How an image is scaled to a size.
    public typealias ContentMode = MegatonRendering.ContentMode
}

extension ImageProcessors {
    /// Builds the identifier of a processor for keys: its name and all its parameters in a fixed order.
    ///
    /// No two parameter lists give the same identifier: parameter names are fixed for each processor, and `text` adds a
    /// length prefix to values that may contain any character.
    static func identifier(_ name: String, _ parameters: KeyValuePairs<String, String> = [:]) -> String {
        let list = parameters.map { "\($0.key)=\($0.value)" }.joined(separator: ",")
        return list.isEmpty ? "megaton/\(name)" : "megaton/\(name)?\(list)"
    }

    /// Prefixes a text with its length, so that its content cannot imitate its end: `5:hello`.
    static func text(_ value: String) -> String { "\(value.utf8.count):\(value)" }

    static func failure(_ what: String, _ reason: String) -> ImageError {
        ImageError(.processingFailed, "\(what) cannot be applied: \(reason).", stage: .process)
    }
}

extension Optional where Wrapped == Color {
    /// The text for identifiers.
    var name: String { map(\.description) ?? "clear" }
}

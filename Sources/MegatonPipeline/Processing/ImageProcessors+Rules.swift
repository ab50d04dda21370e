extension ImageProcessors {
    /// What stands for a processor in keys: its name and all its parameters in a fixed order.
    ///
    /// No two parameter lists give the same text: the names are fixed for a processor, and what may hold any character
    /// is written with its length by `text`.
    static func identifier(_ name: String, _ parameters: KeyValuePairs<String, String> = [:]) -> String {
        let list = parameters.map { "\($0.key)=\($0.value)" }.joined(separator: ",")
        return list.isEmpty ? "megaton/\(name)" : "megaton/\(name)?\(list)"
    }

    /// A text whose end no text within it can feign: `5:hello`.
    static func text(_ value: String) -> String { "\(value.utf8.count):\(value)" }

    static func failure(_ what: String, _ reason: String) -> ImagePipeline.Error {
        ImagePipeline.Error(.processingFailed, "\(what) cannot be done: \(reason).", stage: .process)
    }
}

extension Optional where Wrapped == Color {
    /// For identifiers.
    var name: String { map(\.description) ?? "clear" }
}

extension Color {
    var isGrey: Bool { red == green && green == blue }
}

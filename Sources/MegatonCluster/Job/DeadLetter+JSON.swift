package import Foundation

extension DeadLetter {
    /// The letter as a JSON object, with the time of death as a date (`died_at`), and the job as an object (`request`)
    /// in addition to its original text.
    package func describedJSON(_ formatting: JSONSerialization.WritingOptions = []) throws -> Data {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let plain = try encoder.encode(self)
        guard var object = try JSONSerialization.jsonObject(with: plain) as? [String: Any] else { return plain }
        object["died_at"] = Date(timeIntervalSince1970: died).formatted(.iso8601)
        // Other text than JSON may have been pushed; it is in `job.job`.
        if let request = try? JSONSerialization.jsonObject(with: Data(content.job.utf8)) { object["request"] = request }
        return try JSONSerialization.data(
            withJSONObject: object,
            options: formatting.union([.sortedKeys, .withoutEscapingSlashes])
        )
    }
}

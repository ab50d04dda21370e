internal import Foundation

/// The bytes within a `data:` URL (RFC 2397).
enum DataURL {
    /// - Throws: `.invalidURL`.
    static func decode(_ url: URL) throws(ImagePipeline.Error) -> Data {
        let text = url.absoluteString.dropFirst("data:".count)
        guard let comma = text.firstIndex(of: ",") else {
            throw ImagePipeline.Error(.invalidURL, "A data: URL needs a comma before its data.")
        }
        let body = text[text.index(after: comma)...]
        guard let plain = String(body).removingPercentEncoding else {
            throw ImagePipeline.Error(.invalidURL, "A data: URL has a broken percent-encoding.")
        }
        guard text[..<comma].lowercased().hasSuffix(";base64") else { return Data(plain.utf8) }
        // Strictly (RFC 4648 section 3.3): what is no base64 is no picture either, and should not look like an empty one.
        guard let data = Data(base64Encoded: plain.filter { !$0.isWhitespace }) else {
            throw ImagePipeline.Error(.invalidURL, "A data: URL has broken base64.")
        }
        return data
    }
}

import ArgumentParser
import Foundation
import MegatonCommandLine
import MegatonCore
import MegatonPipeline

/// Faults of watermarks that would show on each image, or fail each job.
enum WatermarkCheck {
    /// Endings of names by which a text is taken for the name of an image.
    private static let endings = [".png", ".jpg", ".jpeg", ".webp", ".svg", ".gif"]

    /// Refuses a text that is meant as an image, as it would be drawn on all images. A JSON object says which it is.
    ///
    /// - Parameters:
    ///   - argument: the command-line option that has the text, for the message.
    ///   - text: the value of the watermark.
    /// - Throws: `ValidationError` if the text is the name of a file or ends like that of an image.
    static func refuseFileName(_ argument: String, _ text: String) throws {
        if text.hasPrefix("{") { return }
        let lowercase = text.lowercased()
        var isDirectory: ObjCBool = false
        let isFile = FileManager.default.fileExists(atPath: text, isDirectory: &isDirectory) && !isDirectory.boolValue
        guard isFile || endings.contains(where: { lowercase.hasSuffix($0) }) else { return }
        let name = text.split(separator: "/").last.map(String.init) ?? text
        throw ValidationError(
            "\(argument): the watermark \(FieldProblem.quoted(text)) would be drawn as a text, and it looks like the "
                + "name of an image. For the image, give {\"image\": \(FieldProblem.quoted(name))} as the watermark, "
                + "and its directory with --watermarks DIR of run or worker; {\"text\": "
                + "\(FieldProblem.quoted(text))} draws the text."
        )
    }

    /// Refuses fields in the syntax of `--rendition`, as they would be drawn on all images.
    ///
    /// - Parameters:
    ///   - argument: the command-line option that has the text, for the message.
    ///   - text: the value of the watermark.
    /// - Throws: `ValidationError` with the JSON of the same fields if the text begins with a field's name and "=".
    static func refuseFields(_ argument: String, _ text: String) throws {
        var fields: [(name: String, value: String)] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = pair[0].trimmingCharacters(in: .whitespaces)
            if pair.count == 2, Rendition.Watermark.fieldNames.contains(name) {
                fields.append((name, pair[1].trimmingCharacters(in: .whitespaces)))
            } else if fields.isEmpty {
                return
            } else {
                // A comma within the value.
                fields[fields.count - 1].value += ",\(part)"
            }
        }
        let members = try fields.map { field in
            let value = try json(of: field.value, in: field.name)
            return "\"\(field.name)\":\(value)"
        }
        let hasContent = fields.contains { ["text", "image"].contains($0.name) }
        let object = ((hasContent ? [] : [#""text":"© Me""#]) + members).joined(separator: ",")
        let drawn = try JSONText.line(text)
        throw ValidationError(
            "\(argument): the watermark \(FieldProblem.quoted(text)) would be drawn as a text, and it looks like "
                + "fields of a watermark. Give these as JSON: {\(object)}; {\"text\":\(drawn)} draws "
                + "the text."
        )
    }

    /// The value of a field as JSON. An image is a name without directories.
    private static func json(of value: String, in field: String) throws -> String {
        switch field {
        case "text", "position": return try JSONText.line(value)
        case "image": return try JSONText.line(value.split(separator: "/").last.map(String.init) ?? value)
        default: break
        }
        if let number = Int(value) { return "\(number)" }
        if let number = Double(value), number.isFinite { return "\(number)" }
        return try JSONText.line(value)
    }

    /// - Parameter path: the directory of `--watermarks`.
    /// - Throws: `CLIError` if it does not exist or is not a directory.
    static func requireDirectory(_ path: String) throws(CLIError) {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else {
            throw CLIError.usage("--watermarks \(path): no such directory.")
        }
        if isDirectory.boolValue { return }
        throw CLIError.usage(
            "--watermarks \(path) is not a directory; give the directory that has the images of watermarks."
        )
    }

    /// Checks the images that renditions name before any job is made, as each job would fail.
    ///
    /// - Parameter watermarks: the images of `--watermarks`; nil without the option.
    /// - Throws: `CLIError` for the first name that is unknown.
    static func requireImages(of renditions: [Rendition], among watermarks: Watermarks?) throws(CLIError) {
        for rendition in renditions {
            guard case .image(let name) = rendition.watermark?.content, watermarks?.names.contains(name) != true else {
                continue
            }
            let start = "the rendition \(rendition.name) names the watermark \(FieldProblem.quoted(name))"
            guard let watermarks else {
                throw CLIError.usage("\(start): give the directory that has this image with --watermarks DIR.")
            }
            throw CLIError.usage("\(start), and \(problem(of: name, watermarks))")
        }
    }

    /// Checks the image of `--image-watermark`, as each URL that draws it would fail.
    ///
    /// - Parameter watermarks: the images of `--watermarks`.
    /// - Throws: `CLIError` if none has the name.
    static func requireImage(_ name: String, among watermarks: Watermarks) throws(CLIError) {
        if watermarks.names.contains(name) { return }
        throw CLIError.usage(
            "--image-watermark names \(FieldProblem.quoted(name)), and \(problem(of: name, watermarks))"
        )
    }

    private static func problem(of name: String, _ watermarks: Watermarks) -> String {
        if let reason = watermarks.unusable[name] { return reason.message }
        let known = watermarks.names
        let near = Spelling.nearest(to: name, among: known).map { " Did you mean \($0)?" } ?? ""
        let names = known.isEmpty ? "has no images" : "has \(known.joined(separator: ", "))"
        return "the directory of --watermarks \(names).\(near)"
    }
}

internal import CCodecs
internal import CVips
internal import Foundation

/// Collects libvips messages during one call, from the calling thread and from the threads that compute its images.
/// libvips itself has one buffer for all threads, and reports many reasons only as warnings.
enum VipsMessages {
    /// Runs the body with a message buffer of its own, so that its errors give the reasons of its own images.
    static func collecting<Value, Failure: Error>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        guard let messages = megaton_messages_new() else { return try body() }
        let previous = megaton_messages_enter(messages)
        defer {
            _ = megaton_messages_enter(previous)
            megaton_messages_unref(messages)
        }
        return try body()
    }

    /// The reason of a failure: the last two errors that describe the image, and a warning that adds detail. Nil if no
    /// messages are collected, or if there were none.
    static func text() -> String? {
        guard let messages = megaton_messages_current() else { return nil }
        let errors = lines { megaton_messages_errors(messages, $0, $1) }
        let telling = errors.filter { !isCommonplace($0) }
        var reason = Array((telling.isEmpty ? errors : telling).suffix(2))
        // For some errors libvips reports only that something failed, and gives the reason in an earlier warning.
        let warnings = lines { megaton_messages_warnings(messages, $0, $1) }
        if let warning = warnings.first(where: { !isCommonplace($0) }), !reason.contains(warning) {
            reason.append(warning)
        }
        return reason.isEmpty ? nil : reason.joined(separator: "; ")
    }

    /// Whether an error was reported, even if the body succeeded.
    static var hasErrors: Bool {
        guard let messages = megaton_messages_current() else { return false }
        return !lines { megaton_messages_errors(messages, $0, $1) }.isEmpty
    }

    /// Errors that do not describe the image: steps of the libvips pipeline, and formats that it tried and rejected.
    private static let commonplaces = [
        "error in tile", "read gave", "heifload: ignoring nclx profile", "vips2", "source: bad seek",
        "source input: Not a TIFF", "vips__tiff_openin_source",
    ]

    private static func isCommonplace(_ line: String) -> Bool { commonplaces.contains { line.hasPrefix($0) } }

    private static func lines(_ copy: (UnsafeMutablePointer<CChar>, Int) -> Int) -> [String] {
        var text = [CChar](repeating: 0, count: 2049)
        let length = copy(&text, text.count)
        let bytes = text.prefix(length).map { UInt8(bitPattern: $0) }
        // Codecs may quote bytes of the file, so control characters are replaced.
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
            String(line.map { $0.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "?" : $0 })
        }
    }
}

extension VipsImage {
    /// The same image, whose messages go to the buffer of the current thread, whichever threads compute it. An image in
    /// memory has been computed and is returned unchanged.
    func tapped() throws(VipsError) -> VipsImage {
        if pointer.pointee.dtype == VIPS_IMAGE_SETBUF || pointer.pointee.dtype == VIPS_IMAGE_SETBUF_FOREIGN {
            return self
        }
        var out: UnsafeMutableRawPointer?
        guard megaton_messages_tap(pointer, &out) == 0, let out else { throw VipsError() }
        return VipsImage(out.assumingMemoryBound(to: CVips.VipsImage.self))
    }
}

internal import CVips
internal import Foundation

/// One attempt of libvips to read a source at one damage level, with messages and notes of its own.
struct DecodingAttempt {
    /// A source that is being read.
    final class Source {
        /// Notes from opening the source.
        fileprivate(set) var notes: [String] = []
        private let bytes: UnsafeRawBufferPointer
        private let failOn: Rendition.FailOn
        /// Whether an empty frame was inserted before the first one.
        private let hasEmptyFrame: Bool

        fileprivate init(_ bytes: UnsafeRawBufferPointer, _ failOn: Rendition.FailOn, hasEmptyFrame: Bool) {
            self.bytes = bytes
            self.failOn = failOn
            self.hasEmptyFrame = hasEmptyFrame
        }

        /// Opens the image and drops a profile that does not fit it.
        ///
        /// - Parameter options: Loader options.
        func open(_ options: String = "") throws(VipsError) -> VipsImage {
            let all = hasEmptyFrame ? (options.isEmpty ? "page=1" : "\(options),page=1") : options
            var image = try VipsImage.open(bytes, options: all, failOn: failOn)
            if hasEmptyFrame { image = try image.droppingFirstPage() }
            guard let misfit = ProfileFit.misfit(of: image) else { return image }
            notes = RenderNotes.merged(notes, [ICCProfile.note(misfit, as: image.plainColors)])
            return try image.droppingProfile()
        }
    }

    private let data: Data
    private let failOn: Rendition.FailOn
    private let hasEmptyFrame: Bool

    init(_ data: Data, _ type: AssetType, failOn: Rendition.FailOn) {
        let extended = type == .gif ? GIFCanvas.startingEmpty(data) : nil
        self.data = extended ?? data
        self.failOn = failOn
        hasEmptyFrame = extended != nil
    }

    /// Runs the body and keeps the bytes alive until it returns, because images are opened lazily.
    func result<Value>(_ body: (Source) throws(VipsError) -> Value) -> Result<Value, VipsError> {
        data.withUnsafeBytes { bytes in
            VipsMessages.collecting {
                do throws(VipsError) {
                    return .success(try body(Source(bytes, failOn, hasEmptyFrame: hasEmptyFrame)))
                } catch {
                    return .failure(error)
                }
            }
        }
    }
}

extension Result where Failure == VipsError {
    /// - Throws: `.corruptImage` or `.unsupportedFormat` with the reason after `what`.
    func orThrow(_ what: String) throws(ImageError) -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let error): throw error.asDecodingError(what)
        }
    }
}

extension VipsError {
    func asDecodingError(_ what: String = "the image cannot be decoded") -> ImageError {
        cause ?? .decoding(text, what)
    }
}

extension ImageError {
    /// Messages of decoders about valid images of a kind that they do not read.
    private static let unsupportedKinds = ["subsampled images not supported", "Unsupported JPEG process"]

    /// The error for a message of a decoder: `.unsupportedFormat` for a kind that it does not read, or else
    /// `.corruptImage`.
    static func decoding(_ reason: String, _ what: String = "the image cannot be decoded") -> ImageError {
        guard unsupportedKinds.contains(where: { reason.contains($0) }) else { return corrupt(reason, what) }
        return ImageError(.unsupportedFormat, "\(what): \(reason).")
    }

    /// The error for damaged data, whatever the message of the decoder is.
    static func corrupt(_ reason: String, _ what: String = "the image cannot be decoded") -> ImageError {
        ImageError(.corruptImage, "\(what): \(reason).")
    }
}

extension VipsImage {
    /// The same pixels, without the first page in the page metadata.
    fileprivate func droppingFirstPage() throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        megaton_vips_drop_page(copy.pointer)
        return copy
    }

    fileprivate func droppingProfile() throws(VipsError) -> VipsImage {
        let copy = try Self.make { megaton_vips_copy(pointer, $0) }
        vips_image_remove(copy.pointer, "icc-profile-data")
        return copy
    }
}

package import Foundation

extension VipsEngine {
    /// Encodes an image in the format of a rendition and with its options.
    ///
    /// - Throws: `.encodingFailed`, `.renderTimedOut`.
    package func encode(
        _ image: PlatformImage,
        _ rendition: Rendition,
        _ deadline: RenderDeadline
    ) throws(ImageError) -> Data {
        let stop = VipsImage.Stop(deadline)
        let result: Result<Data, VipsError> = VipsMessages.collecting {
            do throws(VipsError) {
                var pixels = image.vipsImage
                if !rendition.keepsAlpha { pixels = try pixels.flattened(rendition.background) }
                // Encodes a copy, because progress handlers must not stay on a shared image.
                return .success(try pixels.keeping([]).encode(rendition, stop: stop).data)
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let data): return data
        case .failure(let error):
            throw deadline.error ?? error.cause
                ?? ImageError(.encodingFailed, "\(rendition.format.rawValue) cannot be written: \(error.text).")
        }
    }
}

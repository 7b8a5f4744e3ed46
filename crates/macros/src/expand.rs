//! The implementation of `Job` that the macro writes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DataStruct, DeriveInput, Error, Fields, LitStr, Path, Result, ext::IdentExt, parse_quote};

use crate::{
    name,
    options::{Options, UniqueBy, checked},
};

/// Implements `Job` for a type.
pub(crate) fn job(input: &DeriveInput) -> Result<TokenStream> {
    check(input)?;
    let options = Options::of(&input.attrs)?;
    let facade = options.facade.clone().unwrap_or_else(|| parse_quote!(::punctual));
    let (constants, functions) = (constants(input, &options, &facade)?, functions(input, &options, &facade)?);
    let (ident, (impl_generics, type_generics, condition)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #facade::Job for #ident #type_generics #condition {
            #constants
            #functions
        }
    })
}

/// Refuses types that cannot be payloads, and options at the wrong place.
fn check(input: &DeriveInput) -> Result<()> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, "a job is stored and read again later: its payload cannot borrow"));
    }
    if let Data::Union(data) = &input.data {
        return Err(Error::new_spanned(data.union_token, "a union cannot be a payload; expected a struct or an enum"));
    }
    let is_ours = |attribute: &&Attribute| attribute.path().is_ident("job");
    match inner_attributes(&input.data).into_iter().find(is_ours) {
        Some(attribute) => Err(Error::new_spanned(attribute, "options of a job are written before its type")),
        None => Ok(()),
    }
}

/// The attributes of fields and variants.
fn inner_attributes(data: &Data) -> Vec<&Attribute> {
    fn of_fields(fields: &Fields) -> impl Iterator<Item = &Attribute> {
        fields.iter().flat_map(|field| &field.attrs)
    }
    match data {
        Data::Struct(data) => of_fields(&data.fields).collect(),
        Data::Enum(data) => {
            data.variants.iter().flat_map(|variant| variant.attrs.iter().chain(of_fields(&variant.fields))).collect()
        }
        Data::Union(_) => Vec::new(),
    }
}

fn constants(input: &DeriveInput, options: &Options, facade: &Path) -> Result<TokenStream> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => checked(name::kebab_case(&input.ident.unraw().to_string()), input.ident.span(), name::MAX_CHARS)?,
    };
    let queue = options.queue.iter();
    let priority = options.priority.iter();
    let max_attempts = options.max_attempts.iter();
    let timeout_ms = options.timeout.iter().map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let parent_results = options.parent_results.then_some(true).into_iter();
    let log_level = options.log_level.iter();
    let redact = &options.redact;
    Ok(quote! {
        const NAME: &'static str = #name;
        #(const QUEUE: &'static str = #queue;)*
        #(const PRIORITY: u8 = #priority;)*
        #(const MAX_ATTEMPTS: u32 = #max_attempts;)*
        #(const TIMEOUT: ::core::time::Duration = ::core::time::Duration::from_millis(#timeout_ms);)*
        #(const PARENT_RESULTS: bool = #parent_results;)*
        #(const LOG_LEVEL: #facade::core::LogLevel = #facade::core::LogLevel::#log_level;)*
        const REDACT: &'static [&'static str] = &[#(#redact),*];
    })
}

fn functions(input: &DeriveInput, options: &Options, facade: &Path) -> Result<TokenStream> {
    let retry = options.retry.iter();
    let concurrency_key = options.concurrency_key.iter().map(|format| formatted(input, format));
    let concurrency_key = concurrency_key.collect::<Result<Vec<_>>>()?;
    let unique = match &options.unique {
        Some(UniqueBy::Payload) => Some(quote!(#facade::Unique::payload())),
        Some(UniqueBy::Key(format)) => {
            let key = formatted(input, format)?;
            Some(quote!(#facade::Unique::key(#key)))
        }
        None => None,
    };
    let unique = unique.iter();
    Ok(quote! {
        #(fn retry() -> #facade::RetryPolicy {
            #retry
        })*
        #(fn concurrency_key(&self) -> ::core::option::Option<::std::string::String> {
            ::core::option::Option::Some(#concurrency_key)
        })*
        #(fn unique(&self) -> ::core::option::Option<#facade::Unique> {
            ::core::option::Option::Some(#unique)
        })*
    })
}

/// A text with the fields of `self` that a format string names.
fn formatted(input: &DeriveInput, format: &LitStr) -> Result<TokenStream> {
    let fields = match &input.data {
        Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => &fields.named,
        _ if format.value().contains('{') => {
            return Err(Error::new(format.span(), "a key is made of named fields, which only a struct has"));
        }
        _ => return Ok(quote!(::std::string::String::from(#format))),
    };
    let fields = fields.iter().map(|field| &field.ident);
    Ok(quote! {{
        #[allow(unused_variables)]
        let Self { #(#fields),* } = self;
        ::std::format!(#format)
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: &DeriveInput) -> String {
        job(input).unwrap_err().to_string()
    }

    #[test]
    fn only_what_is_set_is_written() {
        let input: DeriveInput = parse_quote!(
            struct SendEmail;
        );
        let expected = quote! {
            #[automatically_derived]
            impl ::punctual::Job for SendEmail {
                const NAME: &'static str = "send-email";
                const REDACT: &'static [&'static str] = &[];
            }
        };
        assert_eq!(job(&input).unwrap().to_string(), expected.to_string());
    }

    #[test]
    fn a_key_is_made_of_fields() {
        let input: DeriveInput = parse_quote! {
            #[job(name = "sync", concurrency_key = "account-{account}")]
            struct Sync<T: Payload> { account: u32, changes: T }
        };
        let expected = quote! {
            #[automatically_derived]
            impl<T: Payload> ::punctual::Job for Sync<T> {
                const NAME: &'static str = "sync";
                const REDACT: &'static [&'static str] = &[];
                fn concurrency_key(&self) -> ::core::option::Option<::std::string::String> {
                    ::core::option::Option::Some({
                        #[allow(unused_variables)]
                        let Self { account, changes } = self;
                        ::std::format!("account-{account}")
                    })
                }
            }
        };
        assert_eq!(job(&input).unwrap().to_string(), expected.to_string());
    }

    #[test]
    fn types_that_cannot_be_jobs_are_refused() {
        let borrowed = refusal(&parse_quote!(
            struct Borrowed<'a> {
                text: &'a str,
            }
        ));
        assert_eq!(borrowed, "a job is stored and read again later: its payload cannot borrow");
        let union = refusal(&parse_quote!(union Either { a: u32, b: f32 }));
        assert_eq!(union, "a union cannot be a payload; expected a struct or an enum");
        let misplaced = refusal(&parse_quote!(
            struct Mail {
                #[job(unique)]
                id: u32,
            }
        ));
        assert_eq!(misplaced, "options of a job are written before its type");
        let unnamed = refusal(&parse_quote!(
            #[job(unique = "order-{0}")]
            struct Ship(u32);
        ));
        assert_eq!(unnamed, "a key is made of named fields, which only a struct has");
        let long: DeriveInput = syn::parse_str(&format!("struct {};", "A".repeat(200))).unwrap();
        assert!(refusal(&long).contains("200 characters, at most 128 are allowed"));
    }
}
